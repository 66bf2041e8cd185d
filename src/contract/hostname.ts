/** The hostname of every sandbox, copies included: a program that ran before the copy knows it already. */
export const HOSTNAME = "e2b.local";
