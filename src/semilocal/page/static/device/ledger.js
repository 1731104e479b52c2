// What the tasks of a device may cost and have cost. Losses are exact: integers of units of 2^-1074. Knows a vault's
// contents. Knows no storage and no requests.

import { BudgetExceeded, check } from "#device/errors.js";
import { exactUnits, unitsToNumber } from "#device/bytes.js";

/** @typedef {import("#device/vault.js").Account} Account */
/** @typedef {import("#device/vault.js").Contents} Contents */

const ACCOUNTS = /** @type {Account[]} */ (["epsilon", "exposure"]);
/** What an account counts, with its adjacency and delta. */
const WORDS = { epsilon: "epsilon (delta = 0; for a moved position over any position inside the region it was moved to, or with two servers between any two in the domain or bucket)", exposure: "exposure (epsilon, delta = 0; between two positions inside the cells that you named)" };

/** The exact sum of losses. @param {number[]} parts */
export const exactSum = (parts) => parts.reduce((sum, part) => sum + exactUnits(part), 0n);

/** What may still be reserved on an account; null for no cap. @param {Contents} contents @param {Account} account */
export function leftOn({ caps, ledger }, account) {
  const cap = caps[account];
  if (cap === null) return null;
  return Object.values(ledger).reduce((left, line) => left - (line.settled ? line[account].spent : line[account].reserved), exactUnits(cap));
}

/** The ledger with the worst case of a task. @param {Contents} contents @param {string} task @param {Record<Account, bigint>} worst */
export function reserve(contents, task, worst) {
  check(!(task in contents.ledger), "this task is in the ledger; a task is joined only once");
  for (const account of ACCOUNTS) {
    const left = leftOn(contents, account);
    if (left !== null && worst[account] > left) {
      throw new BudgetExceeded(`this task may cost ${unitsToNumber(worst[account])} of ${WORDS[account]}; your cap on all tasks leaves ${unitsToNumber(left)}`);
    }
  }
  const line = { epsilon: { reserved: worst.epsilon, spent: 0n }, exposure: { reserved: worst.exposure, spent: 0n }, settled: false };
  return { ...contents.ledger, [task]: line };
}

/** The ledger after spending: both amounts are totals and only grow. @param {Contents} contents @param {string} task @param {Record<Account, bigint>} totals */
export function spend(contents, task, totals) {
  const line = contents.ledger[task];
  check(line && !line.settled, "nothing is reserved for this task, or it is settled");
  for (const account of ACCOUNTS) {
    check(totals[account] >= line[account].spent, `${account} spent cannot fall`);
    if (totals[account] > line[account].reserved) {
      throw new BudgetExceeded(`${account} ${unitsToNumber(totals[account])} is more than was reserved when the task was joined; nothing more is sent`);
    }
  }
  const after = (/** @type {Account} */ account) => ({ ...line[account], spent: totals[account] });
  return { ...contents.ledger, [task]: { ...line, epsilon: after("epsilon"), exposure: after("exposure") } };
}

/** The ledger with a task that is over: what was reserved and not spent is free again. @param {Contents} contents @param {string} task */
export function settle(contents, task) {
  return { ...contents.ledger, [task]: { ...contents.ledger[task], settled: true } };
}

/** A record without one entry. @template T @param {Record<string, T>} record @param {string} name */
export const without = (record, name) => Object.fromEntries(Object.entries(record).filter(([key]) => key !== name));
