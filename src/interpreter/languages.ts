/** All languages in the order of their default contexts, with the number of kernels to start in advance. */
import { pythonLanguage } from "./jupyter/python.ts";
import { rLanguage } from "./jupyter/r.ts";
import type { Language } from "./kernel.ts";
import { bash } from "./runners/bash/language.ts";
import { java } from "./runners/java/language.ts";
import { javascript } from "./runners/javascript/language.ts";

interface Offer {
  language: Language;
  /** Whether its default context exists from the start. */
  isOpen: boolean;
  spares: number;
}

export function offeredLanguages(runFolder: string): Offer[] {
  const installed = [rLanguage(runFolder), java()].filter((language) => language !== undefined);
  return [
    { language: pythonLanguage(runFolder), isOpen: true, spares: 1 },
    { language: javascript("javascript"), isOpen: true, spares: 0 },
    { language: javascript("typescript"), isOpen: false, spares: 0 },
    { language: bash(), isOpen: false, spares: 0 },
    ...installed.map((language) => ({ language, isOpen: false, spares: 0 })),
  ];
}
