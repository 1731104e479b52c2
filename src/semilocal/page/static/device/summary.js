// What a device tells its owner afterwards: what was spent and what was revealed. Every epsilon stands with its adjacency
// and delta. Knows numbers and words. Neither the secret nor the position is in it.

import { INSIDE, placeWords, short } from "#device/before.js";
import { hex, unitsToNumber } from "#device/bytes.js";
import { EXPERIMENTAL, collusionWords, lossWords, readPairTask } from "#device/pair.js";
import { readTask } from "#device/task.js";
import { ownOf, readPlan, releaseWords, withValues } from "#device/plan.js";

/** @typedef {"finished" | "stopped" | "cancelled" | "refused" | "unfinished" | "uploaded"} Outcome */
/** @typedef {import("#device/messages.js").Region} Region */
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
  const nothing = { token: "", reason: "", region: null, members: null, answered: 0, cuts: [], late: false, epsilon: 0, checkpoint: "" };
  const [entry, upload, line] = [contents.memberships[name], contents.uploads[name], contents.ledger[name]];
  const epsilon = line ? unitsToNumber(line.spent) : 0;
  if (upload) {
    const outcome = upload.receipt.length ? "uploaded" : upload.refusal ? "refused" : "unfinished";
    const found = { ...nothing, ...upload.refusal, outcome: /** @type {Outcome} */ (outcome), epsilon };
    return { ...found, lines: uploadLines(found, upload) };
  }
  if (!entry) {
    const found = { ...nothing, ...refusal, outcome: /** @type {Outcome} */ (refusal ? "refused" : "unfinished") };
    return { ...found, lines: [opening(found), NOTHING_SPENT] };
  }
  const { state } = entry;
  const [lower, upper] = state.region ?? [0n, 0n];
  const outcome = entry.refusal ? "refused" : state.stopped ? "stopped" : !entry.over ? "unfinished" : entry.members === null ? "cancelled" : "finished";
  const found = {
    ...nothing, reason: state.stopped, ...entry.refusal, outcome: /** @type {Outcome} */ (outcome), region: state.region, members: entry.members, answered: state.book.length,
    cuts: state.book.flatMap(({ cuts }) => cuts.filter((cut) => lower < cut && cut < upper)), late: entry.reported[0] !== 1,
    epsilon, checkpoint: hex(entry.checkpoint),
  };
  return { ...found, lines: afterLines(found, entry) };
}

/**
 * What is promised to a participant, from the parts of the text that the server has with the task's numbers.
 * @param {Record<string, string>} words @param {{members: number, answered: number, inside: number, late: boolean, values: boolean}} found
 */
function participantSentence(words, { members, answered, inside, late, values }) {
  const which = !answered ? "none" : !inside ? "outside" : inside === answered ? "inside" : "mixed";
  const chosen = [words.region, words[late ? "crowd-late" : "crowd"] + words.now, words[which], ...(inside ? [words.lines] : []), ...(values ? [words.values] : []), words.rest];
  const fields = { members: members.toLocaleString("en"), answered: `${answered} ${answered === 1 ? "question" : "questions"}`, inside: String(inside) };
  return Object.entries(fields).reduce((text, [name, value]) => text.replaceAll(`{${name}}`, value), chosen.join(" "));
}

/** @param {Omit<Summary, "lines">} found */
const opening = ({ outcome, token, reason }) => WORDS[outcome] + (reason ? ` Reason: ${reason}${token ? ` [${token}]` : ""}` : "");

/** @param {Omit<Summary, "lines">} found @param {import("#device/vault.js").Membership} entry */
function afterLines(found, entry) {
  const task = readTask(entry.task);
  const plan = readPlan(entry.plan);
  const { region, members, answered, late } = found;
  if (region === null) return [opening(found), NOTHING_SPENT];
  const lines = [opening(found), `Your region: ${placeWords(task.tree, region)}.`];
  const sides = [...new Set(found.cuts)].map((cut) => `between ${placeWords(task.tree, [region[0], cut])} and ${placeWords(task.tree, [cut, region[1]])}`);
  if (sides.length) lines.push(`${sides.length > 1 ? "Lines" : "The line"} you answered about here: ${sides.join("; ")}.`);
  const values = entry.state.values.map(({ index }) => releaseWords(plan.releases[index]));
  if (members !== null && entry.words) lines.push(participantSentence(entry.words, { members, answered, inside: found.cuts.length, late, values: values.length > 0 }));
  lines.push(`What you spent: epsilon = ${short(found.epsilon)} (delta = 0) between ${INSIDE}${withValues(ownOf(plan))}, also if the server lies.`);
  if (values.length) lines.push(`Given through noise: ${values.join("; ")}.`);
  if (found.checkpoint) lines.push(`The transcript's root is ${found.checkpoint}. Everybody who followed the same round must see the same one.`);
  return lines;
}

/** @param {Omit<Summary, "lines">} found @param {import("#device/vault.js").PairUpload} upload */
function uploadLines(found, upload) {
  const pair = readPairTask(upload.task);
  const lines = [opening(found)];
  if (upload.receipt.length) lines.push(`Receipt of ${pair.leader.name}, signed: upload ${hex(upload.digest)}. This device keeps it.`);
  return [...lines, `What you spent: ${lossWords(pair)}, against everyone who sees the result and against either operator alone.`, collusionWords(pair), EXPERIMENTAL];
}
