/**
 * What is said between the server and a CRIU that takes its request over a socket. It tells each stage of its work
 * that it has come to and waits for the word to go on; in the end it says how it went.
 */

import { encodeField, fieldsOf, numberIn } from "./image/protobuf-fields.ts";

type CriuWork = "dump" | "restore";

/** Kinds of messages, in both directions. */
const KIND: Readonly<Record<CriuWork | "stage", number>> = { dump: 1, restore: 2, stage: 6 };

/** Numbers of the fields: of a request, */
const REQUEST_KIND = 1;
const REQUEST_OPTIONS = 2;
const REQUEST_GO_ON = 3;
/** of its options, */
const IMAGES_DESCRIPTOR = 1;
const PID = 2;
const FILE_LOCKS = 8;
const LOG_LEVEL = 9;
const LOG_FILE = 10;
const TELL_STAGES = 12;
const ROOT = 13;
const WORK_DESCRIPTOR = 17;
const CGROUP_ROOT = 25;
const CGROUPS_MODE = 34;
const EXTERNAL = 37;
const CONFIG_FILE = 51;
const IMAGES_FOLDER = 68;
/** of the cgroup to restore in, */
const CGROUP_PATH = 2;
/** Of what is to be restored of cgroups: what is not there yet. */
const CGROUPS_SOFT = 3;
/** of an answer, and of what it says about a stage or of what was restored. */
const ANSWER_KIND = 1;
const ANSWER_SUCCESS = 2;
const ANSWER_RESTORED = 4;
const ANSWER_STAGE = 5;
const RESTORED_PID = 1;
const STAGE_NAME = 1;
const STAGE_PID = 2;

/** Must be given, also when the folder is named instead. */
const NO_DESCRIPTOR = -1;

interface CriuOptions {
  images: string;
  /** From 0, only errors, to 4, everything. */
  logLevel: number;
  /** Of the first process to write. */
  pid?: number;
  /** Of the folder that it works in, for who sends the request; if not here, it is in its command line. */
  workDescriptor?: number;
  /** What is not in the image, and where it is found; the same holds. */
  external?: readonly string[];
  restore?: RestoreOptions;
}

/** For one that has no command line of its own. */
interface RestoreOptions {
  /** Of the file with all other options. */
  config: string;
  /** In the folder that it works in. */
  log: string;
  root: string;
  cgroup: string;
}

/** For a dump, all other options are in its command line. */
export function criuRequest(what: CriuWork, options: CriuOptions): Buffer {
  const { images, logLevel, pid, workDescriptor, external = [], restore } = options;
  const told = Buffer.concat([
    encodeField(IMAGES_DESCRIPTOR, NO_DESCRIPTOR),
    ...(pid === undefined ? [] : [encodeField(PID, pid)]),
    encodeField(LOG_LEVEL, logLevel),
    encodeField(TELL_STAGES, 1),
    ...(workDescriptor === undefined ? [] : [encodeField(WORK_DESCRIPTOR, workDescriptor)]),
    ...external.map((each) => encodeField(EXTERNAL, Buffer.from(each))),
    ...(restore === undefined ? [] : restoreFields(restore)),
    encodeField(IMAGES_FOLDER, Buffer.from(images)),
  ]);
  return Buffer.concat([encodeField(REQUEST_KIND, KIND[what]), encodeField(REQUEST_OPTIONS, told)]);
}

function restoreFields({ config, log, root, cgroup }: RestoreOptions): Buffer[] {
  return [
    encodeField(FILE_LOCKS, 1),
    encodeField(CGROUPS_MODE, CGROUPS_SOFT),
    encodeField(LOG_FILE, Buffer.from(log)),
    encodeField(ROOT, Buffer.from(root)),
    encodeField(CGROUP_ROOT, encodeField(CGROUP_PATH, Buffer.from(cgroup))),
    encodeField(CONFIG_FILE, Buffer.from(config)),
  ];
}

/** The word after a stage. */
export function afterStage(goOn: boolean): Buffer {
  return Buffer.concat([encodeField(REQUEST_KIND, KIND.stage), encodeField(REQUEST_GO_ON, goOn ? 1 : 0)]);
}

type CriuAnswer =
  /** `pid` is that of the first process, if there is one by then and it matters. */
  { stage: string; pid: number | undefined } | { success: boolean; pid: number | undefined };

export function criuAnswer(message: Buffer): CriuAnswer {
  const fields = fieldsOf(message);
  const within = (number: number) =>
    fieldsOf(fields.find((field) => field.number === number)?.bytes ?? Buffer.alloc(0));
  if (numberIn(fields, ANSWER_KIND) === KIND.stage) {
    const told = within(ANSWER_STAGE);
    const stage = told.find(({ number }) => number === STAGE_NAME)?.bytes?.toString() ?? "";
    return { stage, pid: numberIn(told, STAGE_PID) };
  }
  return { success: numberIn(fields, ANSWER_SUCCESS) === 1, pid: numberIn(within(ANSWER_RESTORED), RESTORED_PID) };
}
