// What a device tells its owner, before and after: what will be known to whom, what was spent, what was revealed. Every
// epsilon stands with its adjacency and delta. Knows numbers and words. Neither the secret nor the position is in it.

import { hex, unitsToNumber } from "#device/bytes.js";
import { COLLUSION, EXPERIMENTAL, lossWords, readPairTask } from "#device/pair.js";
import { epsilonOfTask, epsilonWorst, keepsCrowd, readTask } from "#device/task.js";
import { readPlan, releaseWords } from "#device/values.js";

/** @typedef {import("#device/task.js").Task} Task */
/** @typedef {import("#device/values.js").Plan} Plan */
/** @typedef {import("#device/pair.js").PairTask} PairTask */
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
const INSIDE = "any two positions inside your published region";
const MOVED = "a moved position over any position inside the region it was moved to";
const WORDS = /** @type {Record<Outcome, string>} */ ({
  finished: "You have a region.",
  lost: "A round closed without your answer, so you are out. You have no region.",
  cancelled: "The campaign was cancelled.",
  refused: "This device refused to go on.",
  unfinished: "The campaign goes on; come back to follow it.",
  uploaded: "You have uploaded. Nothing more will be asked.",
});

/** @param {number} number */
export const short = (number) => String(Number(number.toPrecision(6)));

/** A cell as intervals per axis. @param {Task["tree"]} tree @param {bigint} cell */
export function placeWords(tree, cell) {
  const label = "nameOf" in tree ? tree.nameOf(cell) : "";
  if (label) return label;
  const { lower, upper } = tree.corners(cell);
  return tree.box.names.map((name, axis) => `${name} ${short(lower[axis])} to ${short(upper[axis])}`).join(", ");
}

/** Lengths of sides in words. @param {Task["tree"]} tree @param {number[]} sides */
const sidesWords = (tree, sides) => sides.map((side) => Number(side.toPrecision(2))).join(" x ") + (tree.isGeographic ? " km" : "");

/** What one task costs at most, each loss with its adjacency and delta. @param {Task} task @param {Plan} plan */
function costLines(task, plan) {
  const inside = epsilonOfTask(task) + plan.epsilon;
  const worst = epsilonWorst(task) + plan.epsilon;
  const factor = Number(Math.exp(Math.min(inside, 700)).toPrecision(3));
  const lines = [`Protected: where you are inside that region. epsilon = ${short(inside)} (delta = 0) between ${INSIDE}: what you send changes the odds between the two by a factor of at most ${factor}.`];
  if (task.max_trims) lines.push(`If you are in a sparse part, your device may act from a place that you are not at. Then it is up to epsilon = ${short(worst)} (delta = 0) for ${MOVED}, in this direction only; nothing is promised between two moved positions.`);
  if (plan.asked.length) lines.push(`Included: ${plan.asked.map((index) => `${releaseWords(plan.releases[index])} (epsilon = ${short(plan.releases[index].mechanism?.epsilon ?? 0)}, delta = 0, between ${INSIDE})`).join("; ")}.`);
  return lines;
}

/** What will be known to whom, before anything is sent. @param {Task} task @param {Plan} plan */
export function beforeLines(task, plan) {
  const { tree } = task;
  const smallest = tree.smallestSides(task.max_rounds).map((side, axis) => Math.max(side, task.min_side[axis] ?? task.min_side[0] ?? 0));
  const crowd = keepsCrowd(task)
    ? `At least k = ${task.k} participants are published in your region, you included, except with probability delta = ${task.delta}.`
    : "No crowd is promised: you may be alone in your region, and everybody would see it.";
  return [
    `Known to everybody, without any protection: the region your device ends in, its crowd, and in which rounds it answered, under a name made for this campaign. ${crowd}`,
    ...costLines(task, plan),
    `Known to this server alone: that a browser at your network address takes part. It is not stored.`,
    `If this server lies about the others, your crowd may be made up and you can be led to a cell of about ${sidesWords(tree, smallest)}; that exposes up to epsilon = ${short(task.max_rounds * epsilonOfTask(task) + plan.epsilon)} (delta = 0) between positions in the same smallest cell.`,
    "Your exact position never leaves this device. Between positions in different regions nothing is hidden.",
  ];
}

/** The regions that a position may end in, from the whole domain down. @param {Task} task @param {number[]} position */
export function ladder(task, position) {
  const { tree } = task;
  const code = tree.codeOf(position);
  return Array.from({ length: task.max_rounds + 1 }, (_, depth) => {
    const cell = tree.ancestor(code, depth);
    return { depth, cell, place: placeWords(tree, cell), size: sidesWords(tree, tree.sides(cell)) };
  }).filter(({ cell, depth }) => depth === 0 || tree.isLongEnough(cell, task.min_side));
}

/** What will be known to whom with two servers, before anything is sent. @param {PairTask} pair */
export function beforePairLines(pair) {
  const [smallest, bucket] = [pair.tree.maxDepth, pair.bucket_depth].map((depth) => sidesWords(pair.tree, pair.tree.smallestSides(depth)));
  return [
    EXPERIMENTAL,
    `${COLLUSION} That is a cell of about ${smallest}.`,
    `The operators: ${pair.leader.name} at ${pair.leader.origin} and ${pair.helper.name} at ${pair.helper.origin}. Take part only if you believe that they do not work together.`,
    ...(pair.bucket_depth ? [`Known to everybody, without any protection: your bucket, one of ${2 ** pair.bucket_depth} cells, of about ${bucket}.`] : []),
    `Protected: where you are. ${lossWords(pair)}, against everybody who sees the result and against either operator alone.`,
    `Known to ${pair.leader.name}: that a browser at your network address uploaded. Known to everybody: how many did.`,
  ];
}

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
  if (found.crowd !== null) lines.push(`Your crowd: ${found.crowd} answered for this region, you included.`);
  else if (found.outcome === "finished") lines.push("Your crowd: unknown; this task keeps no crowd, you may be alone.");
  const inside = found.epsilon - found.trims * epsilonOfTask(task);
  const moved = found.trims ? `; at most ${short(found.epsilon)} (delta = 0) for ${MOVED}` : "";
  lines.push(`What you spent: epsilon = ${short(inside)} (delta = 0) between ${INSIDE}${moved}, if the server followed the protocol.`);
  if (found.moves) lines.push(`Your device was moved ${found.moves} times: you are not in this region. Only this device knows.`);
  const values = entry.released.answered.map(({ index }) => releaseWords(plan.releases[index]));
  lines.push(`What was revealed: this region, its crowd, and in which rounds you answered; these are unprotected by design.${values.length ? ` Through noise: ${values.join("; ")}.` : ""}`);
  lines.push(`Your exposure: if the server lied about everyone else, your crowd may be made up; the loss is at most epsilon = ${short(found.exposure)} (delta = 0) between positions that are led along the same cells: ${found.rounds} rounds answered.`);
  if (found.checkpoint) lines.push(`The transcript's root is ${found.checkpoint}. Everybody who answered the same round must see the same one.`);
  return lines;
}

/** @param {Omit<Summary, "lines">} found @param {import("#device/vault.js").PairUpload} upload */
function uploadLines(found, upload) {
  const pair = readPairTask(upload.task);
  const lines = [opening(found)];
  if (upload.receipt.length) lines.push(`Receipt of ${pair.leader.name}, signed: upload ${hex(upload.digest)}. This device keeps it.`);
  return [...lines, `What you spent: ${lossWords(pair)}, against everyone who sees the result and against either operator alone.`, COLLUSION, EXPERIMENTAL];
}
