// What a device's owner allows (spec/protocol.md, section 11). Everything here is decided before anything is sent and
// from public things only. Knows tasks, plans and limits. Knows no positions.

import { ServerViolation, check } from "#device/errors.js";
import { epsilonOfTask, keepsCrowd } from "#device/task.js";

/** @typedef {import("#device/task.js").Task} Task */
/** @typedef {import("#device/plan.js").Plan} Plan */
/**
 * @typedef {object} Policy
 * @property {number} max_epsilon largest loss between two positions of its region, releases included (delta = 0)
 * @property {number} min_k smallest crowd that the task must promise
 * @property {number} max_delta largest chance of missing that crowd
 * @property {boolean} allow_no_crowd whether to join tasks that promise no crowd
 * @property {boolean} allow_simulation whether to join tasks whose noise or draw is for simulation only
 * @property {number[]} min_side sides that a region's largest cell has at least: none, one for all axes, or one per axis
 * @property {number | null} max_depth of a region's largest cell; null for no limit
 * @property {number | null} max_splits of its region; null for no limit
 */

const ROUNDING = 1 + 1e-12;

/** What protects a person who has set nothing but the budget. @param {Partial<Policy> & {max_epsilon: number}} given @returns {Policy} */
export function policyOf(given) {
  const policy = {
    min_k: 20, max_delta: 1e-3, allow_no_crowd: false, allow_simulation: false, min_side: [], max_depth: null, max_splits: null, ...given,
  };
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
  const loss = epsilonOfTask(task) + plan.epsilon;
  /** @type {[boolean, string, string][]} */
  const rows = [
    [task.randomizer.kind !== "paper-laplace" || policy.allow_simulation, "simulation-only", "the task's noise is in floats, for simulation only"],
    [keepsCrowd(task) || policy.allow_no_crowd, "no-crowd", "the task keeps no crowd: it may show where a participant is, alone"],
    [task.rule !== "cut" || task.chain.length > 0 || policy.allow_simulation, "no-chain", "the task has no hash chain, so its server could choose who is asked"],
    [task.k >= policy.min_k, "small-crowd", `the task promises a crowd of ${task.k}; the owner wants ${policy.min_k}`],
    [task.delta <= policy.max_delta * ROUNDING, "weak-crowd", `the crowd may fail with probability ${task.delta}; ${policy.max_delta} is allowed`],
    [loss <= policy.max_epsilon * ROUNDING, "over-budget", `the task costs epsilon = ${loss} (delta = 0) between any two positions inside your published region; ${policy.max_epsilon} is left`],
  ];
  return rows.filter(([good]) => !good).map(([, token, reason]) => new ServerViolation(token, reason));
}

/** Refuse a task that the policy forbids. @param {Task} task @param {Plan} plan @param {Policy} policy */
export function checkTask(task, plan, policy) {
  for (const refusal of refusals(task, plan, policy)) throw refusal;
  check([0, 1, task.tree.axes].includes(policy.min_side.length), `min_side has one number, or one per axis; got ${policy.min_side}`);
  checkRegion(task, task.tree.ends, policy, 0); // a device that enrols is known to be in the domain
}

/** Refuse a region that is too small for the owner, or cut too often. @param {Task} task @param {import("#device/messages.js").Region} region @param {Policy} policy @param {number} splits */
export function checkRegion(task, [lower, upper], policy, splits) {
  const { min_side: least, max_depth: deepest, max_splits: most } = policy;
  if (most !== null && splits > most) throw new ServerViolation("many-splits", `the region would be cut ${splits} times; the owner allows ${most}`);
  if (!least.length && deepest === null) return;
  const { tree } = task;
  const cell = tree.largestCell(lower, upper);
  if (deepest !== null) {
    let depth = 0;
    while (!tree.hasDepth(cell, depth)) depth += 1;
    if (depth > deepest) throw new ServerViolation("deep-region", `the region's largest cell has depth ${depth}; the owner allows ${deepest}`);
  }
  if (tree.isLongEnough(cell, least)) return;
  const unit = tree.isGeographic ? " km" : "";
  const words = tree.sides(cell).map((side) => side.toPrecision(3)).join(" x ");
  throw new ServerViolation("small-region", `the region's largest cell measures ${words}${unit}; the owner names none below ${least.join(" x ")}${unit}`);
}
