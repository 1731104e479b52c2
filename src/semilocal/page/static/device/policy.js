// What a device's owner allows (spec/protocol.md, section 12). Everything here is decided before anything is sent and
// from public things only. Knows tasks, plans and limits. Knows no positions.

import { ServerViolation, check } from "#device/errors.js";
import { epsilonOfTask, epsilonWorst, keepsCrowd } from "#device/task.js";

/** @typedef {import("#device/task.js").Task} Task */
/** @typedef {import("#device/plan.js").Plan} Plan */
/**
 * @typedef {object} Policy
 * @property {number} max_epsilon largest loss of a moved position over any inside its region, releases included (delta = 0)
 * @property {number | null} max_exposure largest loss against a server that lies; null for no limit
 * @property {number} min_k smallest crowd that the task must promise
 * @property {number} max_delta largest chance of missing that crowd
 * @property {boolean} allow_no_crowd whether to join tasks that promise no crowd
 * @property {boolean} allow_simulation whether to join tasks whose noise is for simulation only
 * @property {number[]} min_side shortest sides of a cell that is ever named: none, one for all axes, or one per axis
 */

const ROUNDING = 1 + 1e-12;

/** What protects a person who has set nothing but the budget. @param {Partial<Policy> & {max_epsilon: number}} given @returns {Policy} */
export function policyOf(given) {
  const policy = {
    max_exposure: 50, min_k: 20, max_delta: 1e-3, allow_no_crowd: false, allow_simulation: false, min_side: [], ...given,
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
  const worst = epsilonWorst(task) + plan.epsilon;
  const inside = epsilonOfTask(task) + plan.epsilon;
  /** @type {[boolean, string, string][]} */
  const rows = [
    [task.randomizer.kind !== "paper-laplace" || policy.allow_simulation, "simulation-only", "the task's noise is in floats, for simulation only"],
    [keepsCrowd(task) || policy.allow_no_crowd, "no-crowd", "the task keeps no crowd: it may show where a participant is, alone"],
    [task.k >= policy.min_k, "small-crowd", `the task promises a crowd of ${task.k}; the owner wants ${policy.min_k}`],
    [task.delta <= policy.max_delta * ROUNDING, "weak-crowd", `the crowd may fail with probability ${task.delta}; ${policy.max_delta} is allowed`],
    [
      worst <= policy.max_epsilon * ROUNDING, "over-budget",
      `the task may cost epsilon = ${inside} (delta = 0) between any two positions inside your published region, and up to epsilon = ${worst} (delta = 0) for a moved position against any position inside the region it was moved to; ${policy.max_epsilon} is left`,
    ],
  ];
  return rows.filter(([good]) => !good).map(([, token, reason]) => new ServerViolation(token, reason));
}

/** Refuse a task that the policy forbids. @param {Task} task @param {Plan} plan @param {Policy} policy */
export function checkTask(task, plan, policy) {
  for (const refusal of refusals(task, plan, policy)) throw refusal;
  check([0, 1, task.tree.axes].includes(policy.min_side.length), `min_side has one number, or one per axis; got ${policy.min_side}`);
  checkCell(task, 1n, policy); // a device that enrols is known to be in the domain
}

/** Refuse to name a cell that is smaller than the owner allows. @param {Task} task @param {bigint} cell @param {Policy} policy */
export function checkCell(task, cell, policy) {
  if (task.tree.isLongEnough(cell, policy.min_side)) return;
  const unit = task.tree.isGeographic ? " km" : "";
  const words = task.tree.sides(cell).map((side) => side.toPrecision(3)).join(" x ");
  throw new ServerViolation("small-cell", `the cell measures ${words}${unit}; the owner names none with a side below ${policy.min_side.join(" x ")}${unit}`);
}
