// The task: everything public about one collection, pinned by its id (spec/protocol.md, section 5); and what a device's
// owner allows (section 11), decided before anything is sent and from public things only. Knows parameters and limits.
// Knows no state of a run and no positions.

/** @import { Plan } from "#device/plan.js" */
/** @import { Value } from "#device/wire.js" */
import { sha256 } from "#vendor/noble-hashes.js";
import { check, hex, mustBeHere, ServerViolation } from "#device/base.js";
import { Tree } from "#device/trees.js";
import { bytes, fieldOf, float, integer, isPrintable, list, map, oneOf, text, unpack } from "#device/wire.js";

/** @typedef {ReturnType<typeof readFields>} Fields */
/** @typedef {Fields & {id: Uint8Array, bytes: Uint8Array, tree: Tree}} Task */

const readBoxTree = map({
  kind: oneOf("binary"),
  box: map({ lower: list(float), upper: list(float), names: list(text) }),
  max_depth: integer(1, 60),
});

/** The fields of a tree over a box. @param {Value} value */
export function readHierarchy(value) {
  const kind = fieldOf(value, "kind");
  mustBeHere(!["quad", "sphere", "table"].includes(kind), `a campaign whose places are those of a ${kind}`);
  return readBoxTree(value);
}

const readFields = map({
  type: oneOf("task"),
  hierarchy: readHierarchy,
  randomizer: map({ kind: oneOf("randomized-response"), epsilon: float, fanout: integer(2, 2) }),
  rule: oneOf("cut"),
  k: integer(1, 2 ** 20),
  delta: float,
  answers: integer(1, 64),
  max_rounds: integer(1, 1000),
  quorum: float,
  window: integer(1, 10 ** 8),
  tolerate_liars: integer(0, 2 ** 20),
  server_key: bytes(0, 32),
  min_side: list(float),
  label: text,
  chain: bytes(0, 32),
});

/** The task in canonical bytes; anything else is refused. @param {Uint8Array} data @returns {Task} */
export function readTask(data) {
  const found = unpack(data);
  mustBeHere(fieldOf(found, "rule") !== "all", "a campaign that plays the paper's rule");
  const fields = readFields(found);
  const { epsilon } = fields.randomizer;
  const tree = new Tree(fields.hierarchy);
  check(epsilon >= 0.001 && epsilon <= 40, `epsilon is from 0.001 to 40; got ${epsilon}`);
  check(fields.delta >= 1e-15 && fields.delta < 0.5, `delta is from 1e-15 to below 0.5; got ${fields.delta}`);
  check(fields.quorum > 0 && fields.quorum <= 1, `quorum is above 0 and at most 1; got ${fields.quorum}`);
  const least = fields.min_side;
  check(least.length === 0 || ([1, tree.axes].includes(least.length) && least.every((side) => side > 0)), `min_side is empty, or has 1 or ${tree.axes} lengths`);
  check(tree.isLongEnough(2n, least) && tree.isLongEnough(3n, least), "min_side leaves no split of the domain");
  check([...fields.label].length <= 64 && isPrintable(fields.label), "a label has at most 64 printable characters");
  return { ...fields, id: sha256(data), bytes: data, tree };
}

/** The bytes of a task, if they have its id. @param {Uint8Array} data @param {string} name */
export function pinned(data, name) {
  if (hex(sha256(data)) !== name) throw new ServerViolation("other-task", "the task's bytes do not have the id that was asked for");
  return data;
}

/**
 * @typedef {object} Policy
 * @property {number} max_epsilon largest loss between two positions of its region, releases included (delta = 0)
 * @property {number} min_k smallest crowd that the task must promise
 * @property {number} max_delta largest chance of missing that crowd
 * @property {number[]} min_side sides that a region's largest cell has at least: none, one for all axes, or one per axis
 */

const ROUNDING = 1 + 1e-12;

/** What protects a person who has set nothing but the budget. @param {Partial<Policy> & {max_epsilon: number}} given @returns {Policy} */
export function policyOf(given) {
  const policy = { min_k: 20, max_delta: 1e-3, min_side: [], ...given };
  check(policy.min_side.every((side) => side >= 0 && side < Infinity), `min_side holds lengths of at least 0; got ${policy.min_side}`);
  check(!(policy.max_delta > 1), `max_delta is a chance from 0 to 1; got ${policy.max_delta}`);
  return policy;
}

/**
 * Everything in a task and its plan that a policy forbids; empty if a device may join. Comparisons are written so that
 * a limit that is not a number refuses.
 * @param {Task} task @param {Plan} plan @param {Policy} policy @returns {ServerViolation[]}
 */
export function refusals(task, plan, policy) {
  const loss = task.answers * task.randomizer.epsilon + plan.epsilon; // between two positions of a region, both ways
  /** @type {[boolean, string, string][]} */
  const rows = [
    [task.chain.length > 0, "no-chain", "the task has no hash chain, so its server could choose who is asked"],
    [task.k >= policy.min_k, "small-crowd", `the task promises a crowd of ${task.k}; the owner wants ${policy.min_k}`],
    [task.delta <= policy.max_delta * ROUNDING, "weak-crowd", `the crowd may fail with probability ${task.delta}; ${policy.max_delta} is allowed`],
    [loss <= policy.max_epsilon * ROUNDING, "over-budget", `the task costs epsilon = ${loss} (delta = 0), as its promise says; ${policy.max_epsilon} is left`],
  ];
  return rows.filter(([good]) => !good).map(([, token, reason]) => new ServerViolation(token, reason));
}

/** Refuse a task that the policy forbids. @param {Task} task @param {Plan} plan @param {Policy} policy */
export function checkTask(task, plan, policy) {
  for (const refusal of refusals(task, plan, policy)) throw refusal;
  check([0, 1, task.tree.axes].includes(policy.min_side.length), `min_side has one number, or one per axis; got ${policy.min_side}`);
  checkRegion(task, task.tree.ends, policy); // a device that enrols is known to be in the domain
}

/** Refuse a region that is too small for the owner. @param {Task} task @param {import("#device/messages.js").Region} region @param {Policy} policy */
export function checkRegion({ tree }, [lower, upper], { min_side: least }) {
  if (!least.length) return;
  const cell = tree.largestCell(lower, upper);
  if (tree.isLongEnough(cell, least)) return;
  const unit = tree.isGeographic ? " km" : "";
  const words = tree.sides(cell).map((side) => side.toPrecision(3)).join(" x ");
  throw new ServerViolation("small-region", `the region's largest cell measures ${words}${unit}; the owner names none below ${least.join(" x ")}${unit}`);
}
