// What the tasks of a device may cost and have cost: losses between two positions that no task's region tells apart. They
// are exact: integers of units of 2^-1074. Knows a vault's contents. Knows no storage and no requests.

import { BudgetExceeded, check } from "#device/errors.js";
import { exactUnits, unitsToNumber } from "#device/bytes.js";

/** @typedef {import("#device/vault.js").Contents} Contents */

const WORDS = "epsilon (delta = 0; between any two positions inside your published region, or with two servers between any two in the domain or bucket)";

/** The exact sum of losses. @param {number[]} parts */
export const exactSum = (parts) => parts.reduce((sum, part) => sum + exactUnits(part), 0n);

/** What may still be reserved; null for no cap. @param {Contents} contents */
function leftOf({ cap, ledger }) {
  if (cap === null) return null;
  return Object.values(ledger).reduce((left, line) => left - (line.settled ? line.spent : line.reserved), exactUnits(cap));
}

/** The ledger with the worst case of a task. @param {Contents} contents @param {string} task @param {bigint} worst */
export function reserve(contents, task, worst) {
  check(!(task in contents.ledger), "this task is in the ledger; a task is joined only once");
  const left = leftOf(contents);
  if (left !== null && worst > left) throw new BudgetExceeded(`this task may cost ${unitsToNumber(worst)} of ${WORDS}; your cap on all tasks leaves ${unitsToNumber(left)}`);
  return { ...contents.ledger, [task]: { reserved: worst, spent: 0n, settled: false } };
}

/** The ledger with what a task has cost so far; it may fall, because a region that is cut has fewer answers inside. @param {Contents} contents @param {string} task @param {bigint} total */
export function spend(contents, task, total) {
  const line = contents.ledger[task];
  check(line && !line.settled, "nothing is reserved for this task, or it is settled");
  if (total > line.reserved) throw new BudgetExceeded(`epsilon ${unitsToNumber(total)} is more than was reserved when the task was joined; nothing more is sent`);
  return { ...contents.ledger, [task]: { ...line, spent: total } };
}

/** The ledger with a task that is over: what was reserved and not spent is free again. @param {Contents} contents @param {string} task */
export function settle(contents, task) {
  return { ...contents.ledger, [task]: { ...contents.ledger[task], settled: true } };
}

/** A record without one entry. @template T @param {Record<string, T>} record @param {string} name */
export const without = (record, name) => Object.fromEntries(Object.entries(record).filter(([key]) => key !== name));
