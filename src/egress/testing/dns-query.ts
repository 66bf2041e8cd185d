/** DNS messages as sandboxes send them, valid and invalid. */
interface QueryFacts {
  id?: number;
  flags?: number;
  questions?: number;
  type?: number;
  class?: number;
  /** Numbers of records that come with the question: answers, authorities and additional ones. */
  counts?: readonly [number, number, number];
  /** Behind the question. */
  extra?: Buffer;
}

const RECURSION_DESIRED = 0x0100;

/** A message with one question. A name is split at its dots; labels are taken as they are. */
export function dnsQuery(name: string | readonly string[], facts: QueryFacts = {}): Buffer {
  const { id = 0x1234, flags = RECURSION_DESIRED, questions = 1, counts = [0, 0, 0] } = facts;
  const labels = typeof name === "string" ? name.split(".") : name;
  return Buffer.concat([
    words(id, flags, questions, ...counts),
    ...labels.map((label) => Buffer.concat([Buffer.from([label.length]), Buffer.from(label, "latin1")])),
    Buffer.from([0]),
    words(facts.type ?? 1, facts.class ?? 1),
    facts.extra ?? Buffer.alloc(0),
  ]);
}

/** The id and the code of an answer. */
export function answerHead(message: Buffer): { id: number; code: number; questions: number; answers: number } {
  return {
    id: message.readUInt16BE(0),
    code: message.readUInt16BE(2) & 15,
    questions: message.readUInt16BE(4),
    answers: message.readUInt16BE(6),
  };
}

export function words(...values: number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 2);
  for (const [index, value] of values.entries()) bytes.writeUInt16BE(value, index * 2);
  return bytes;
}
