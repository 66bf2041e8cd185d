/**
 * Requests to CRIU and its responses, over a socket (`proto/criu/criu.proto`). CRIU reports each stage of its work and
 * waits for a reply before it continues; the last response says whether it succeeded.
 */
import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import {
  Action,
  CgroupMode,
  type OptionsSchema,
  RequestSchema,
  type Response,
  ResponseSchema,
} from "../../../contract/runtime/wire/criu/criu_pb.ts";

/** CRIU requires a descriptor, also where the folder is given by name. */
const NO_FD = -1;

type Options = Omit<MessageInitShape<typeof OptionsSchema>, "$typeName"> & { imagesFolder: string; logLevel: number };

/** All other options of a dump are on the command line. */
export function dumpRequest(options: Options): Uint8Array {
  return request(Action.DUMP, options);
}

/** The request of a restore has every option. */
export function restoreRequest(options: Options & { cgroup: string }): Uint8Array {
  const { cgroup, ...others } = options;
  const cgroups = { cgroupMode: CgroupMode.SOFT, cgroupRoots: [{ path: cgroup }] };
  return request(Action.RESTORE, { ...others, ...cgroups, fileLocks: true });
}

function request(action: Action, options: Options): Uint8Array {
  return encoded({ action, options: { ...options, imagesFd: NO_FD, reportStages: true } });
}

/** The reply to a stage: continue, or fail. */
export function stageReply(goOn: boolean): Uint8Array {
  return encoded({ action: Action.STAGE, continue: goOn });
}

function encoded(message: MessageInitShape<typeof RequestSchema>): Uint8Array {
  return toBinary(RequestSchema, create(RequestSchema, message));
}

export function criuResponse(message: Uint8Array): Response {
  return fromBinary(ResponseSchema, message);
}
