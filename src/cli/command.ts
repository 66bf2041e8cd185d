/** A command of `sandlot`: how it is called, what --help says about it, and what it does. */
interface Option {
  type: "string" | "boolean";
  multiple?: boolean;
  /** Name of the value in the help text. */
  value?: string;
  /** A noun phrase and the default. */
  about: string;
}

/** The words after the name of a command. */
export interface Given {
  positionals: string[];
  values: { readonly [option: string]: string | boolean | (string | boolean)[] | undefined };
  /** All of it, unparsed. */
  words: readonly string[];
}

export interface Command {
  /** The name in lower case, then the arguments: `NAME`, `[NAME]` if optional, with `...` if it repeats. */
  usage: string;
  /** Left out of the help text when missing. */
  about?: string;
  /** What an argument may be, for the help text. */
  arguments?: Readonly<Record<string, string>>;
  options?: Readonly<Record<string, Option>>;
  run(given: Given): Promise<number>;
}
