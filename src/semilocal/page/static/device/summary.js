// What a device tells its owner afterwards: where it is and what was spent. Promises are the server's words, which the
// vault keeps. Neither the secret nor the position is in it.

/** @import { Region } from "#device/messages.js" */
import { hex, unitsToNumber } from "#device/base.js";
import { SPREAD } from "#device/channel.js";
import { readPairTask } from "#device/pair.js";
import { readTask } from "#device/task.js";
import { placeWords } from "#device/trees.js";

/** @typedef {"finished" | "stopped" | "cancelled" | "refused" | "unfinished" | "uploaded"} Outcome */
/**
 * @typedef {object} Summary
 * @property {Outcome} outcome "stopped": the owner's limits, or an answer that got lost, ended its part; it keeps its region
 * @property {string} token
 * @property {string} reason
 * @property {Region | null} region the last one that it announced
 * @property {number | null} members of the roster in it, at the end
 * @property {number} answered questions
 * @property {bigint[]} cuts inside its region that it answered about
 * @property {boolean} late whether it enrolled after the first round, and is counted nowhere
 * @property {number} epsilon
 * @property {string} checkpoint hex; empty if there is none
 * @property {string[]} lines all of it, in plain words
 */

const NOTHING_SPENT = "What you spent: nothing. No report has left this device.";
const WORDS = /** @type {Record<Outcome, string>} */ ({
  finished: "You have a region.",
  stopped: "You have a region, and this device says no more.",
  cancelled: "The campaign was cancelled.",
  refused: "This device refused to go on.",
  unfinished: "The campaign goes on; come back to follow it.",
  uploaded: "You have uploaded. Nothing more will be asked.",
});

/**
 * What a vault knows of one task.
 * @param {import("#device/vault.js").Contents} contents @param {string} name its id
 * @param {{token: string, reason: string} | null} [refusal] of a task that was not even joined @returns {Summary}
 */
export function summarise(contents, name, refusal = null) {
  const [entry, upload, line] = [contents.memberships[name], contents.uploads[name], contents.ledger[name]];
  const nothing = { token: "", reason: "", region: null, members: null, answered: 0, cuts: [], late: false, epsilon: line ? unitsToNumber(line.spent) : 0, checkpoint: "" };
  if (upload) {
    const outcome = /** @type {Outcome} */ (upload.receipt.length ? "uploaded" : upload.refusal ? "refused" : "unfinished");
    const found = { ...nothing, ...upload.refusal, outcome };
    return { ...found, lines: [opening(found), ...uploadLines(upload)] };
  }
  if (!entry) {
    const found = { ...nothing, ...refusal, outcome: /** @type {Outcome} */ (refusal ? "refused" : "unfinished") };
    return { ...found, lines: [opening(found), NOTHING_SPENT] };
  }
  const { state } = entry;
  const [lower, upper] = state.region ?? [0n, 0n];
  const outcome = entry.refusal ? "refused" : state.stopped ? "stopped" : !entry.over ? "unfinished" : entry.members === null ? "cancelled" : "finished";
  const found = {
    ...nothing, reason: state.stopped, ...entry.refusal, outcome: /** @type {Outcome} */ (outcome), region: state.region, members: entry.members,
    answered: state.book.length, cuts: state.book.flatMap(({ cuts }) => cuts.filter((cut) => lower < cut && cut < upper)),
    late: entry.reported[0] !== 1, checkpoint: hex(entry.checkpoint),
  };
  return { ...found, lines: [opening(found), ...(state.region ? afterLines(found, entry, state.region) : [NOTHING_SPENT])] };
}

/** One task of a device: what an agent and an upload have in common. */
export class Member {
  /**
   * @param {string} name the task's id @param {import("#device/vault.js").Vault} vault open @param {number[]} position
   * @param {import("#device/task.js").Policy} policy what the owner allows; fixed when the device joins @param {import("#device/agent.js").Options} options
   */
  constructor(name, vault, position, policy, options) {
    this.name = name;
    this.vault = vault;
    this.position = position.map(Number);
    this.policy = policy;
    this.value = options.value ?? null;
    this.token = options.token ?? "";
    this.spread = options.spread ?? SPREAD;
    this.words = options.words ?? null;
    this.notify = options.notify ?? (() => {});
  }

  summary() {
    return summarise(this.vault.contents, this.name);
  }
}

/** @param {Omit<Summary, "lines">} found */
const opening = ({ outcome, token, reason }) => WORDS[outcome] + (reason ? ` Reason: ${reason}${token ? ` [${token}]` : ""}` : "");

/** @param {Omit<Summary, "lines">} found @param {import("#device/vault.js").Membership} entry @param {Region} region */
function afterLines(found, entry, region) {
  const { tree } = readTask(entry.task);
  const lines = [`Your region: ${placeWords(tree, region)}.`];
  const sides = [...new Set(found.cuts)].map((cut) => `between ${placeWords(tree, [region[0], cut])} and ${placeWords(tree, [cut, region[1]])}`);
  if (sides.length) lines.push(`${sides.length > 1 ? "Lines" : "The line"} you answered about here: ${sides.join("; ")}.`);
  lines.push(...promised(found, entry));
  if (found.checkpoint) lines.push(`The transcript's root is ${found.checkpoint}. Everybody who followed the same round must see the same one.`);
  return lines;
}

/** The promise to this participant: the server's words, with what only this device knows. @param {Omit<Summary, "lines">} found @param {import("#device/vault.js").Membership} entry */
function promised({ members, answered, cuts, late, epsilon }, { words, state }) {
  if (!words) return [];
  const which = !answered ? "none" : !cuts.length ? "outside" : cuts.length === answered ? "inside" : "mixed";
  const crowd = words[late ? "crowd-late" : "crowd"] + words.now;
  const chosen = [words.region, crowd, words[which], ...(cuts.length ? [words.lines] : []), ...(state.values.length ? [words.values] : []), words.rest];
  const fields = { members: Number(members).toLocaleString("en"), answered: `${answered} ${answered === 1 ? "question" : "questions"}`, inside: String(cuts.length), epsilon: String(Number(epsilon.toPrecision(6))) };
  const filled = (/** @type {string} */ text) => Object.entries(fields).reduce((line, [name, value]) => line.replaceAll(`{${name}}`, value), text);
  const given = state.values.map(({ index }) => words.releases?.split("\n")[index]);
  return [
    ...(members === null ? [] : [filled(chosen.join(" "))]), ...(words.spent ? [filled(words.spent)] : []),
    ...(given.length ? [`Given through noise: ${given.join("; ")}.`] : []),
  ];
}

/** @param {import("#device/vault.js").PairUpload} upload */
function uploadLines({ task, digest, receipt, words }) {
  const receipts = receipt.length ? [`Receipt of ${readPairTask(task).leader.name}, signed: upload ${hex(digest)}. This device keeps it.`] : [];
  return [...receipts, ...(words ? words.spent.split("\n") : [])];
}
