// The messages of a task and their canonical bytes (spec/protocol.md, section 6; seals: spec/http.md). Knows the form of
// messages. Whether one is legal at a moment is for the participant to say.

/** @import { Value } from "#device/wire.js" */
import { sha256 } from "#vendor/noble-hashes.js";
import { check, concat, order, utf8 } from "#device/base.js";
import { ascends, bytes, flag, float, integer, list, long, oneOf, optional, pack, tagged, tuple, unpack } from "#device/wire.js";

/** @typedef {{bytes: Uint8Array}} Sent as they were sent */
/** @typedef {ReturnType<typeof question>} Question */
/** @typedef {ReturnType<typeof READERS.query> & Sent} Query */
/** @typedef {ReturnType<typeof READERS.slice> & Sent} Slice */
/** @typedef {ReturnType<typeof READERS.closed> & Sent} Closed */
/** @typedef {Closed["verdicts"][number]} Verdict */
/** @typedef {ReturnType<typeof READERS["value-query"]> & Sent} ValueQuery */
/** @typedef {ReturnType<typeof READERS["value-closed"]>} ValueClosed */
/** @typedef {ReturnType<typeof READERS.checkpoint>} Checkpoint */
/** @typedef {ReturnType<typeof READERS.seal>} Seal */
/** @typedef {[bigint, bigint]} Region codes from the first to before the second */
/** @typedef {{lower: bigint, upper: bigint}} Ends */
/** @typedef {bigint | bigint[] | null} Answer */

const LARGEST = 2n ** 64n - 1n;
const id = bytes(32);
const round = integer(1, 2 ** 16);
const code = long(0n, 2n ** 63n);
const any = long(-(2n ** 63n), LARGEST);
const sum = integer(-(2 ** 53 - 1), 2 ** 53 - 1);
const people = integer(0, 2 ** 32);
const release = { task: id, round, plan: id, index: integer(0, 63) };
const ends = { lower: code, upper: code };

/** @type {import("#device/wire.js").Read<Answer>} */
const answer = optional((value) => (Array.isArray(value) ? list(any)(value) : any(value)));

/** What a reader gives, if the check holds for it. @template T @param {import("#device/wire.js").Read<T>} read @param {(found: T) => unknown} good @param {string} words */
const checked = (read, good, words) => (/** @type {Value} */ value) => {
  const found = read(value);
  check(good(found), words);
  return found;
};

/** @param {Ends} region */
const isRegion = ({ lower, upper }) => lower < upper;

/** @param {Ends[]} regions */
const areApart = (regions) => regions.every((region, i) => isRegion(region) && (i === 0 || regions[i - 1].upper <= region.lower));

const question = checked(
  tuple({ ...ends, cuts: list(code, 255), asked: people, start: people, stop: people, drawn: round, threshold: integer(0, 2 ** 53 - 1) }),
  ({ lower, upper, cuts, asked, start, stop }) => cuts.length > 0 && ascends([lower, ...cuts, upper]) && start < stop && stop <= asked,
  "cuts ascend strictly inside a region, and the places that answer are among the asked",
);

const head = tuple({ ...ends, reports: integer(1, 2 ** 32), digest: id });
const verdict = checked(tuple({ outcome: oneOf("split", "wall", "more"), tally: list(sum, 256) }), ({ tally }) => tally.length >= 2, "a tally has a number per part");
const clip = checked(tuple({ ...ends, low: float, high: float }), ({ low, high }) => low <= high, "a range has its smallest first");
const entry = tuple({ pseudonym: bytes(16), answer, nonce: bytes(16) });
const counts = checked(list(tuple({ output: any, count: long(1n, LARGEST) })), (rows) => rows.length > 0 && ascends(rows.map((row) => row.output)), "outputs ascend, and there is at least one");

/** Rows of regions that ascend and do not overlap. @template {Ends} T @param {import("#device/wire.js").Read<T>} read */
const apart = (read) => checked(list(read), areApart, "regions ascend and do not overlap");

const checkpoint = tagged("checkpoint", { task: id, round, size: long(1n, 2n ** 63n - 1n), root: id });

const READERS = {
  query: tagged("query", { task: id, round, questions: apart(question) }),
  report: checked(tagged("report", { task: id, round, pseudonym: bytes(16), ...ends, answer, nonce: bytes(16) }), isRegion, "a region is not empty"),
  slice: checked(
    tagged("slice", { task: id, round, ...ends, entries: list(entry) }),
    (found) => isRegion(found) && found.entries.every((one, i) => i === 0 || order(found.entries[i - 1].pseudonym, one.pseudonym) < 0),
    "the entries of a slice ascend by pseudonym",
  ),
  closed: tagged("closed", { task: id, round, heads: apart(head), verdicts: list(verdict), preimage: bytes(0, 32), finished: flag }),
  "value-query": tagged("value-query", { ...release, clips: apart(clip) }),
  "value-report": checked(tagged("value-report", { task: id, round, pseudonym: bytes(16), ...ends, answer: integer(1 - 2 ** 31, 2 ** 31 - 1) }), isRegion, "a region is not empty"),
  "value-closed": checked(
    tagged("value-closed", { ...release, regions: apart(tuple(ends)), counts: list(counts) }),
    (found) => found.regions.length === found.counts.length, "counts has one entry per region",
  ),
  checkpoint,
  seal: tagged("seal", { checkpoint, head: id, signature: bytes(0, 64) }),
};

/**
 * The message of one kind in canonical bytes; anything else is refused.
 * @template {keyof typeof READERS} K @param {Uint8Array} data @param {K} kind @returns {ReturnType<typeof READERS[K]> & {bytes: Uint8Array}}
 */
export function readMessage(data, kind) {
  const message = /** @type {any} */ (READERS[kind](unpack(data)));
  return Object.defineProperty(message, "bytes", { value: data }); // beside the fields: what is hashed
}

/** @param {Ends} named @returns {Region} */
export const regionOf = ({ lower, upper }) => [lower, upper];

/** @param {Region} a @param {Region} b */
export const isSame = (a, b) => a[0] === b[0] && a[1] === b[1];

/** The parts that the cuts of a question make. @param {Question} asked @returns {Region[]} */
export function partsOf({ lower, upper, cuts }) {
  const edges = [lower, ...cuts, upper];
  return edges.slice(1).map((edge, i) => [edges[i], edge]);
}

/** What draws the members of the round after a closing. @param {{bytes: Uint8Array}} closed */
export const seedOf = (closed) => sha256(concat(utf8("semilocal/2/draw"), closed.bytes));

/**
 * A report; its answer is 0 or 1, or null where only the region is announced.
 * @param {Uint8Array} task @param {number} number @param {Uint8Array} pseudonym @param {Region} region @param {number | null} given @param {Uint8Array} nonce
 */
export function reportBytes(task, number, pseudonym, region, given, nonce) {
  return pack(["report", task, BigInt(number), pseudonym, ...region, given === null ? null : BigInt(given), nonce]);
}

/** @param {Uint8Array} task @param {number} number @param {Uint8Array} pseudonym @param {Region} region @param {number} given */
export const valueReportBytes = (task, number, pseudonym, region, given) => pack(["value-report", task, BigInt(number), pseudonym, ...region, BigInt(given)]);

/** @param {Checkpoint} point */
export const checkpointBytes = (point) => pack(["checkpoint", point.task, BigInt(point.round), point.size, point.root]);
