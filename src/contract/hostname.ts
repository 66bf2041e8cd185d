/** The hostname of every sandbox, copies included: a program that ran before the copy already knows it. */
export const HOSTNAME = "e2b.local";
