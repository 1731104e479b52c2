// What a device tells its owner afterwards: what was spent and what was revealed. Every epsilon stands with its adjacency
// and delta. Knows numbers and words. Neither the secret nor the position is in it.

import { INSIDE, MOVED, placeWords, short } from "#device/before.js";
import { hex, unitsToNumber } from "#device/bytes.js";
import { EXPERIMENTAL, collusionWords, lossWords, readPairTask } from "#device/pair.js";
import { epsilonOfTask, keepsCrowd, readTask } from "#device/task.js";
import { ownOf, readPlan, releaseWords, withValues } from "#device/plan.js";

/** @typedef {"finished" | "lost" | "cancelled" | "refused" | "unfinished" | "uploaded"} Outcome */
/**
 * @typedef {object} Summary
 * @property {Outcome} outcome
 * @property {string} token
 * @property {string} reason
 * @property {bigint | null} region the cell it ended in
 * @property {bigint | null} cell the region, or the cell that was reached
 * @property {number | null} crowd
 * @property {number} moves private: for the owner alone
 * @property {number} trims public
 * @property {number} rounds answered
 * @property {number} epsilon
 * @property {number} exposure
 * @property {string} checkpoint hex; empty if there is none
 * @property {string[]} lines all of it, in plain words
 */

const NOTHING_SPENT = "What you spent: nothing. No answer has left this device.";
const WORDS = /** @type {Record<Outcome, string>} */ ({
  finished: "You have a region.",
  lost: "A round closed without your answer, so you are out. You have no region.",
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
  const nothing = { token: "", reason: "", region: null, cell: null, crowd: null, moves: 0, trims: 0, rounds: 0, epsilon: 0, exposure: 0, checkpoint: "" };
  const [entry, upload, line] = [contents.memberships[name], contents.uploads[name], contents.ledger[name]];
  const [epsilon, exposure] = line ? [unitsToNumber(line.epsilon.spent), unitsToNumber(line.exposure.spent)] : [0, 0];
  if (upload) {
    const outcome = upload.receipt.length ? "uploaded" : upload.refusal ? "refused" : "unfinished";
    const found = { ...nothing, ...upload.refusal, outcome: /** @type {Outcome} */ (outcome), epsilon, exposure };
    return { ...found, lines: uploadLines(found, upload) };
  }
  if (!entry) {
    const found = { ...nothing, ...refusal, outcome: /** @type {Outcome} */ (refusal ? "refused" : "unfinished") };
    return { ...found, lines: [opening(found), NOTHING_SPENT] };
  }
  const { state } = entry;
  const outcome = entry.refusal ? "refused" : state.phase === "finished" || state.phase === "lost" ? state.phase : entry.over ? "cancelled" : "unfinished";
  const found = {
    ...nothing, ...entry.refusal, outcome: /** @type {Outcome} */ (outcome), region: outcome === "finished" ? state.cell : null, cell: state.cell,
    crowd: state.crowd, moves: state.moves, trims: state.trims, rounds: state.answered, epsilon, exposure, checkpoint: hex(entry.checkpoint),
  };
  return { ...found, lines: afterLines(found, entry) };
}

/** @param {Omit<Summary, "lines">} found */
const opening = ({ outcome, token, reason }) => WORDS[outcome] + (reason ? ` Reason: ${reason} [${token}]` : "");

/** @param {Omit<Summary, "lines">} found @param {import("#device/vault.js").Membership} entry */
function afterLines(found, entry) {
  const task = readTask(entry.task);
  const plan = readPlan(entry.plan);
  if (!found.rounds) return [opening(found), NOTHING_SPENT];
  const lines = [opening(found), `${found.outcome === "finished" ? "Your region" : "Reached so far"}: ${placeWords(task.tree, entry.state.cell)}.`];
  const fewer = keepsCrowd(task) && found.crowd !== null && found.crowd < task.k;
  if (found.crowd !== null) lines.push(`Your crowd: ${found.crowd} answered for this region, you included.${fewer ? ` The crowd of k = ${task.k} was missed: too few took part, or some dropped out.` : ""}`);
  else if (found.outcome === "finished") lines.push("Your crowd: unknown; this task keeps no crowd, you may be alone.");
  const inside = found.epsilon - found.trims * epsilonOfTask(task);
  const more = withValues(ownOf(plan));
  const moved = found.trims ? `; at most ${short(found.epsilon)} (delta = 0) for ${MOVED}${more}` : "";
  lines.push(`What you spent: epsilon = ${short(inside)} (delta = 0) between ${INSIDE}${more}${moved}, if the server followed the protocol.`);
  if (found.moves) lines.push(`Your device was moved ${found.moves === 1 ? "once" : `${found.moves} times`}: you are not in this region. Only this device knows.`);
  const values = entry.released.answered.map(({ index }) => releaseWords(plan.releases[index]));
  lines.push(`What was revealed: this region, its crowd, and in which rounds you answered; these are unprotected by design.${values.length ? ` Through noise: ${values.join("; ")}.` : ""}`);
  lines.push(`Your exposure: if the server lied about everyone else, your crowd may be made up; the loss is at most epsilon = ${short(found.exposure)} (delta = 0) between two positions inside this cell, and for a moved position over those inside: ${found.rounds} ${found.rounds === 1 ? "round" : "rounds"} answered.`);
  if (found.checkpoint) lines.push(`The transcript's root is ${found.checkpoint}. Everybody who answered the same round must see the same one.`);
  return lines;
}

/** @param {Omit<Summary, "lines">} found @param {import("#device/vault.js").PairUpload} upload */
function uploadLines(found, upload) {
  const pair = readPairTask(upload.task);
  const lines = [opening(found)];
  if (upload.receipt.length) lines.push(`Receipt of ${pair.leader.name}, signed: upload ${hex(upload.digest)}. This device keeps it.`);
  return [...lines, `What you spent: ${lossWords(pair)}, against everyone who sees the result and against either operator alone.`, collusionWords(pair), EXPERIMENTAL];
}
