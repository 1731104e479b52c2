// The task of two servers (spec/sharing.md, section 9). Experimental: nobody independent has reviewed this mode yet.
// Knows parameters. Knows no uploads, no requests and no storage.

/** @import { Policy } from "#device/task.js" */
import { sha256 } from "#vendor/noble-hashes.js";
import { check, concat, equal, ServerViolation } from "#device/base.js";
import { checkFunction, checkRange } from "#device/plan.js";
import { readHierarchy } from "#device/task.js";
import { Tree } from "#device/trees.js";
import { bytes, fieldOf, float, integer, isPrintable, list, map, oneOf, pack, text, unpack } from "#device/wire.js";

/** @typedef {ReturnType<typeof readOperator>} Operator */
/** @typedef {ReturnType<typeof readValue>} AskedValue */
/**
 * @typedef {ReturnType<typeof readFields> & {id: Uint8Array, bytes: Uint8Array, tree: Tree, levels: number,
 *   asked: AskedValue | null, maps: boolean, epsilon: number}} PairTask maps: places are sent; epsilon: of one upload
 */

const ORIGIN = /^(https?):\/\/([a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(:([1-9][0-9]{0,4}))?$/;
const USUAL_PORT = /** @type {Record<string, string>} */ ({ http: "80", https: "443" });

const readOperator = map({ name: text, origin: text, signing_key: bytes(32), sealing_key: bytes(32) });
const FIELDS = {
  type: oneOf("pair-task-2"),
  pooled: map({
    type: oneOf("pooled-task"), hierarchy: readHierarchy, epsilon: float, trust: oneOf("two-servers"), max_reports: integer(1, 1000),
    threshold: float, opening_share: float, label: text,
  }),
  leader: readOperator,
  helper: readOperator,
  bucket_depth: integer(0, 16),
};
const readFields = map(FIELDS);
const readValue = map({
  name: text, low: float, high: float, bits: integer(1, 10), mean: oneOf("all", "cells"), function: text, parameters: list(float, 64),
});
const readAsking = map({ ...FIELDS, value: readValue });

/** Whether bytes begin like those of a pair task, of this version or before. @param {Uint8Array} data */
export const isPairTask = (data) => ["pair-task-2", "pair-task"].some((kind) => {
  const head = concat(pack("type"), pack(kind));
  return equal(data.slice(1, 1 + head.length), head);
});

/** The pair in canonical bytes; anything else is refused. @param {Uint8Array} data @returns {PairTask} */
export function readPairTask(data) {
  const found = unpack(data);
  check(fieldOf(found, "type") !== "pair-task", "this pair task is of an earlier version of the shares; its operators must create it again");
  const asking = fieldOf(found, "value") ? readAsking(found) : null;
  const fields = asking ?? readFields(found);
  const { pooled, leader, helper, bucket_depth: buckets } = fields;
  const tree = new Tree(pooled.hierarchy), depth = tree.maxDepth;
  check(depth <= 40, `a report has at most 40 levels; got ${depth}`);
  check(pooled.epsilon >= 1e-6 && pooled.epsilon <= 100, `epsilon is from 1e-6 to 100; got ${pooled.epsilon}`);
  check(pooled.threshold > 0 && pooled.threshold <= 2 ** 53, `threshold is above 0; got ${pooled.threshold}`);
  check(pooled.opening_share >= 1 / 1024 && pooled.opening_share <= 0.5, `opening_share is from 1/1024 to 0.5; got ${pooled.opening_share}`);
  [leader, helper].forEach(checkOperator);
  const fold = (/** @type {string} */ name) => name.toUpperCase().toLowerCase();
  check(fold(leader.name) !== fold(helper.name), "the two operators have the same name");
  check(leader.origin !== helper.origin, "the two operators have the same origin");
  check(!equal(leader.signing_key, helper.signing_key), "the two operators have the same signing key");
  check(!equal(leader.sealing_key, helper.sealing_key), "the two operators have the same sealing key");
  check(buckets < depth && buckets % tree.axes === 0, `bucket_depth is a multiple of the ${tree.axes} axes, below the depth; got ${buckets}`);
  const asked = asking ? asking.value : null;
  if (asked) {
    check(buckets === 0, "a task with a value has no public buckets");
    checkAsked(asked);
  }
  const maps = asked === null || asked.mean === "cells";
  const epsilon = asked && maps ? 2 * pooled.epsilon : pooled.epsilon;
  return { ...fields, id: sha256(data), bytes: data, tree, levels: maps ? depth - buckets : 1, asked, maps, epsilon };
}

/** @param {AskedValue} asked */
function checkAsked({ name, low, high, function: f, parameters }) {
  check([...name].length >= 1 && [...name].length <= 100 && isPrintable(name), "a value's name is 1 to 100 printable characters");
  checkRange(low, high);
  if (f) checkFunction(f, parameters);
  else check(!parameters.length, "an owner's own value has no parameters");
}

/** The own value that a pair asks for, if it does. @param {PairTask} pair */
export const ownOfPair = ({ asked }) => (asked && asked.function === "" ? asked : null);

/** @param {Operator} operator */
function checkOperator({ name, origin }) {
  check([...name].length >= 1 && [...name].length <= 200 && isPrintable(name) && name === name.trim(), `an operator's name is 1 to 200 printable characters; got ${name.slice(0, 200)}`);
  const found = ORIGIN.exec(origin);
  check(found && found[5] !== USUAL_PORT[found[1]] && Number(found[5] ?? 1) <= 65535, `an origin is scheme, host and port in lower case; got ${origin}`);
}

/** Where the other operator is. @param {PairTask} pair @param {string} server where the task was found */
export function otherOrigin({ leader, helper }, server) {
  const origins = [leader.origin, helper.origin];
  if (!origins.includes(server)) throw new ServerViolation("other-origin", `the task names ${origins.join(" and ")}, but it was found at ${server}`);
  return origins[server === leader.origin ? 1 : 0];
}

/** Refuse a pair that the owner forbids; nothing here depends on the position. @param {PairTask} pair @param {Policy} policy */
export function checkPair(pair, policy) {
  if (pair.bucket_depth) throw new ServerViolation("public-bucket", `the task makes every device's cell of depth ${pair.bucket_depth} public; a browser does not do that`);
  const limit = policy.max_epsilon;
  if (!(pair.epsilon <= limit)) throw new ServerViolation("over-budget", `the task costs epsilon = ${pair.epsilon} (delta = 0), as its promise says; ${limit} is left`);
  const least = policy.min_side;
  check([0, 1, pair.tree.axes].includes(least.length), `min_side has one number, or one per axis; got ${least}`);
  const found = pair.tree.smallestSides;
  if (pair.maps && least.length && !found.every((side, axis) => side >= (least[axis] ?? least[0]) * (1 - 1e-9))) {
    const unit = pair.tree.isGeographic ? " km" : "";
    const words = found.map((side) => side.toPrecision(3)).join(" x ");
    throw new ServerViolation("small-cell", `the upload holds the position to ${words}${unit}, which both operators together could read; the owner allows nothing below ${least.join(" x ")}${unit}`);
  }
}
