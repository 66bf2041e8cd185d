/** A description written as data and linked again equals the library's own in every property that is read. */
import { describe, expect, test } from "bun:test";
import { create, type DescFile, fromBinary, fromJson, toBinary, toJson } from "@bufbuild/protobuf";
import { file_google_protobuf_any, file_google_protobuf_timestamp } from "@bufbuild/protobuf/wkt";
import { plainFile, plainOf } from "./plain-file.ts";
import { file_filesystem_filesystem } from "./wire/filesystem/filesystem_pb.ts";
import { file_process_process, StartRequestSchema } from "./wire/process/process_pb.ts";

/** What differs between two descriptions, wherever they lead; the binary form that one was made from left aside. */
function differences(one: unknown, other: unknown, at = "file", seen = new Map<unknown, unknown>()): string[] {
  if (typeof one === "function" && typeof other === "function") {
    return at.endsWith(".toString") || one() === other() ? [] : [at];
  }
  if (typeof one !== "object" || one === null || typeof other !== "object" || other === null) {
    return Object.is(one, other) ? [] : [`${at}: ${one} ${other}`];
  }
  if (seen.has(one)) return seen.get(one) === other ? [] : [`${at} leads elsewhere`];
  seen.set(one, other);
  const both = [one, other] as Record<string, unknown>[];
  const names = new Set(both.flatMap(Object.keys));
  names.delete("proto");
  const reported = "kind" in one && String(one) !== String(other) ? [`${at}: ${one} ${other}`] : [];
  return [
    ...reported,
    ...[...names].flatMap((name) => differences(both[0]?.[name], both[1]?.[name], `${at}.${name}`, seen)),
  ];
}

const files: [string, DescFile][] = [
  ["process", file_process_process],
  ["filesystem", file_filesystem_filesystem],
  ["timestamp", file_google_protobuf_timestamp],
  ["any", file_google_protobuf_any],
];

describe.each(files)("the description of %s", (_, file) => {
  test("equals the library's, from its services to the last value", () => {
    const plain = plainFile(plainOf(file), file.dependencies);
    expect(differences(file, plain)).toEqual([]);
    expect(file.dependencies.length).toBe(plain.dependencies.length);
  });
});

test("a different description is detected", () => {
  const plain = plainFile(plainOf(file_process_process));
  const field = plain.messages[0]?.fields[0] as { presence: number };
  field.presence = 9;
  expect(differences(file_process_process, plain)).toHaveLength(1);
});

test("messages are read and written by it in both encodings", () => {
  const plain = plainFile(plainOf(file_process_process));
  const schema = plain.messages.find((one) => one.typeName === StartRequestSchema.typeName);
  if (schema === undefined) throw new Error("there is no such message");
  const json = { process: { cmd: "a", args: ["b"], envs: { c: "d" } }, tag: "", stdin: false };
  const bytes = toBinary(StartRequestSchema, fromJson(StartRequestSchema, json));
  expect(toBinary(schema, fromJson(schema, json))).toEqual(bytes);
  expect(toJson(schema, fromBinary(schema, bytes))).toEqual(json);
  expect(create(schema)).toMatchObject({ $typeName: "process.StartRequest" });
});

test("a description that cannot be written as data is rejected", () => {
  expect(() => plainOf({ ...file_process_process, surprise: () => 1 } as unknown as DescFile)).toThrow("surprise");
});
