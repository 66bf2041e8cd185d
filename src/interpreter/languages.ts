/** All languages, in the order in which their default contexts are made, and what of them runs before it is needed. */
import { pythonLanguage } from "./jupyter/python.ts";
import type { Language } from "./kernel.ts";
import { bash } from "./runners/bash/language.ts";
import { javascript } from "./runners/javascript/language.ts";

interface Offer {
  language: Language;
  /** Its default context is there from the start. */
  isOpen: boolean;
  spares: number;
}

export function offers(runFolder: string): Offer[] {
  return [
    { language: pythonLanguage(runFolder), isOpen: true, spares: 1 },
    { language: javascript("javascript"), isOpen: true, spares: 1 },
    { language: javascript("typescript"), isOpen: false, spares: 0 },
    { language: bash(), isOpen: false, spares: 0 },
  ];
}
