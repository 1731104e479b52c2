// The task of two servers, the one upload to them and its receipt (spec/sharing.md, section 9). Experimental: nobody
// independent has reviewed this mode yet. Knows parameters and bytes. Knows no requests and no storage.

import { ServerViolation, check } from "#device/errors.js";
import { bigEndian, concat, equal, utf8 } from "#device/bytes.js";
import { isSigned } from "#device/curve.js";
import { seal } from "#device/envelope.js";
import { bytes, float, integer, isPrintable, long, map, oneOf, tagged, text } from "#device/fields.js";
import { pseudonym, uploadEntropy } from "#device/keys.js";
import { pack, unpack } from "#device/msgpack.js";
import { makeReport, privateBytes } from "#device/sharing.js";
import { sha256 } from "#device/sha256.js";
import { readHierarchy } from "#device/task.js";
import { treeOf } from "#device/trees.js";

/** @typedef {import("#device/policy.js").Policy} Policy */
/** @typedef {ReturnType<typeof readOperator>} Operator */
/** @typedef {ReturnType<typeof readFields> & {id: Uint8Array, bytes: Uint8Array, tree: import("#device/trees.js").AnyTree, levels: number}} PairTask */
/** @typedef {ReturnType<typeof readReceiptFields>} Receipt */

export const COLLUSION = "If both operators collude they have every position, to the resolution of the upload.";
export const EXPERIMENTAL = "Experimental: nobody independent has reviewed the two-servers mode yet.";
const ORIGIN = /^(https?):\/\/([a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(:([1-9][0-9]{0,4}))?$/;
const USUAL_PORT = /** @type {Record<string, string>} */ ({ http: "80", https: "443" });

const readOperator = map({ name: text, origin: text, signing_key: bytes(32), sealing_key: bytes(32) });
const readFields = map({
  type: oneOf("pair-task"),
  pooled: map({
    type: oneOf("pooled-task"), hierarchy: readHierarchy, epsilon: float, trust: oneOf("two-servers"), max_reports: integer(1, 1000),
    threshold: float, opening_share: float, label: text,
  }),
  leader: readOperator,
  helper: readOperator,
  bucket_depth: integer(0, 16),
});
const readReceiptFields = tagged("receipt", { task: bytes(32), id: bytes(16), digest: bytes(32), time: long(0n, 2n ** 40n - 1n), signature: bytes(64) });
const readUploadFields = tagged("upload", {
  id: bytes(16), public: bytes(), leader: bytes(), helper: bytes(), token: (value) => (value === null ? null : text(value)), bucket: long(1n, 2n ** 62n - 1n),
});

/** Whether bytes begin like those of a pair task. @param {Uint8Array} data */
export const isPairTask = (data) => equal(data.slice(1, 16), concat(pack("type"), pack("pair-task")));

/** The pair in canonical bytes; anything else is refused. @param {Uint8Array} data @returns {PairTask} */
export function readPairTask(data) {
  const found = unpack(data);
  if (found instanceof Map && found.has("value")) {
    throw new ServerViolation("asks-for-a-value", "the task asks for a value beside the position, which this page cannot send; take part with `semilocal join`");
  }
  const fields = readFields(found);
  const { pooled, leader, helper, bucket_depth: buckets } = fields;
  const { kind } = pooled.hierarchy;
  check(kind === "binary" || kind === "sphere", "two servers count in a binary tree or on the sphere");
  check(kind === "binary" || buckets === 0, "public buckets are boxes: bucket_depth is 0 for a sphere");
  const tree = treeOf(pooled.hierarchy);
  check(tree.maxDepth <= 40, `a report has at most 40 levels; got ${tree.maxDepth}`);
  check(pooled.epsilon >= 1e-6 && pooled.epsilon <= 100, `epsilon is from 1e-6 to 100; got ${pooled.epsilon}`);
  check(pooled.threshold > 0 && pooled.threshold <= 2 ** 53, `threshold is above 0; got ${pooled.threshold}`);
  check(pooled.opening_share >= 1 / 1024 && pooled.opening_share <= 0.5, `opening_share is from 1/1024 to 0.5; got ${pooled.opening_share}`);
  [leader, helper].forEach(checkOperator);
  const fold = (/** @type {string} */ name) => name.toUpperCase().toLowerCase();
  check(fold(leader.name) !== fold(helper.name), "the two operators have the same name");
  check(leader.origin !== helper.origin, "the two operators have the same origin");
  check(!equal(leader.signing_key, helper.signing_key), "the two operators have the same signing key");
  check(!equal(leader.sealing_key, helper.sealing_key), "the two operators have the same sealing key");
  check(buckets < tree.maxDepth && buckets % tree.axes === 0, `bucket_depth is a multiple of the ${tree.axes} axes, below the depth; got ${buckets}`);
  return { ...fields, id: sha256(data), bytes: data, tree, levels: tree.maxDepth - buckets };
}

/** @param {Operator} operator */
function checkOperator({ name, origin }) {
  check([...name].length >= 1 && [...name].length <= 200 && isPrintable(name) && name === name.trim(), `an operator's name is 1 to 200 printable characters; got ${name.slice(0, 200)}`);
  const found = ORIGIN.exec(origin);
  check(found && found[5] !== USUAL_PORT[found[1]] && Number(found[5] ?? 1) <= 65535, `an origin is scheme, host and port in lower case; got ${origin}`);
}

/** What one upload costs, with its adjacency and delta. @param {PairTask} pair */
export function lossWords({ pooled, bucket_depth: buckets }) {
  const between = buckets
    ? "any two positions of one person inside the bucket that the upload names; nothing is promised between buckets"
    : "any two positions of one person anywhere in the domain";
  return `epsilon = ${pooled.epsilon} (delta = 0) between ${between}`;
}

/** Refuse a pair that the owner forbids; nothing here depends on the position. @param {PairTask} pair @param {Policy} policy @param {boolean} allowBucket */
export function checkPair(pair, policy, allowBucket) {
  if (pair.bucket_depth && !allowBucket) {
    throw new ServerViolation("public-bucket", `the task makes every device's cell of depth ${pair.bucket_depth} public; the owner does not allow that`);
  }
  for (const limit of [policy.max_epsilon, policy.max_exposure]) {
    if (limit !== null && !(pair.pooled.epsilon <= limit)) throw new ServerViolation("over-budget", `the task costs ${lossWords(pair)}; ${limit} is left`);
  }
  const least = policy.min_side;
  check([0, 1, pair.tree.axes].includes(least.length), `min_side has one number, or one per axis; got ${least}`);
  const found = pair.tree.smallestSides(pair.tree.maxDepth);
  if (least.length && !found.every((side, axis) => side >= (least[axis] ?? least[0]) * (1 - 1e-9))) {
    const words = found.map((side) => side.toPrecision(3)).join(" x ");
    throw new ServerViolation("small-cell", `the upload holds the position to ${words}, which both operators together could read; the owner allows nothing below ${least.join(" x ")}`);
  }
}

/** Bucket and path of a position, its report, and its id. @param {PairTask} pair @param {number[]} position @param {Uint8Array} secret */
export function shareOf(pair, position, secret) {
  const code = pair.tree.codeOf(position);
  const shape = { levels: pair.levels, valueBits: 0 };
  const path = Array.from({ length: pair.levels }, (_, i) => Number((code >> BigInt(pair.levels - 1 - i)) & 1n));
  const report = makeReport(pair.id, shape, path, uploadEntropy(secret, pair.id, code, 2 * privateBytes(shape)));
  return { id: pseudonym(secret, pair.id), bucket: code >> BigInt(pair.levels), report };
}

/**
 * The bytes of the one upload. Envelopes differ every time: store them before they are sent.
 * @param {PairTask} pair @param {number[]} position @param {Uint8Array} secret @param {string} token empty where enrolment is open
 */
export async function makeUpload(pair, position, secret, token) {
  const { id, bucket, report } = shareOf(pair, position, secret);
  const about = { task: pair.id, report: id, public: report.public };
  const leader = await seal(report.private[0], pair.leader.sealing_key, { ...about, role: "leader" });
  const helper = await seal(report.private[1], pair.helper.sealing_key, { ...about, role: "helper" });
  return packUpload({ id, public: report.public, leader, helper, token: token || null, bucket });
}

/** @param {Uint8Array} data */
export const readUpload = (data) => readUploadFields(unpack(data));

/** @param {Omit<ReturnType<typeof readUpload>, "type">} upload */
export const packUpload = ({ id, public: open, leader, helper, token, bucket }) => pack(["upload", id, open, leader, helper, token, bucket]);

/** @param {Uint8Array} data @returns {Receipt} */
export function readReceipt(data) {
  const receipt = readReceiptFields(unpack(data));
  check(receipt.time % 3600n === 0n, "the time of a receipt is a whole hour");
  return receipt;
}

/** Whether a receipt is for this upload and signed by the leader. @param {Receipt} receipt @param {PairTask} pair @param {Uint8Array} upload */
export async function isGoodReceipt(receipt, pair, upload) {
  const parts = [receipt.task, receipt.id, receipt.digest, bigEndian(receipt.time, 8)];
  const signed = concat(utf8("semilocal/1/sharing/receipt/"), ...parts.flatMap((part) => [bigEndian(part.length, 8), part]));
  const ours = equal(receipt.task, pair.id) && equal(receipt.id, readUpload(upload).id) && equal(receipt.digest, sha256(upload));
  return ours && isSigned(receipt.signature, pair.leader.signing_key, signed);
}
