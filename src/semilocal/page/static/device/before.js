// What a device tells its owner before anything is sent: what will be known to whom, and the regions it may end in. Every
// epsilon stands with its adjacency and delta. Knows numbers and words.

import { EXPERIMENTAL, collusionWords, lossWords, ownOfPair } from "#device/pair.js";
import { epsilonOfTask, keepsCrowd } from "#device/task.js";
import { isOwn, ownOf, ownWords, releaseWords, withValues } from "#device/plan.js";

/** @typedef {import("#device/task.js").Task} Task */
/** @typedef {import("#device/plan.js").Plan} Plan */
/** @typedef {import("#device/pair.js").PairTask} PairTask */

export const INSIDE = "any two positions inside your published region";

/** @param {number} number */
export const short = (number) => String(Number(number.toPrecision(6)));

/** @typedef {import("#device/messages.js").Region} Region */

/** The box around a region. @param {Task["tree"]} tree @param {Region} region */
export function boxOf(tree, [from, to]) {
  const boxes = tree.intervalCells(from, to).map((cell) => tree.corners(cell));
  const lower = tree.box.lower.map((_, axis) => Math.min(...boxes.map((box) => box.lower[axis])));
  return { lower, upper: lower.map((_, axis) => Math.max(...boxes.map((box) => box.upper[axis]))) };
}

/** A region in words: its labels if it has some, else the box around it. @param {Task["tree"]} tree @param {Region} region */
export function placeWords(tree, region) {
  const names = "nameOf" in tree ? tree.intervalCells(...region).map((cell) => tree.nameOf(cell)) : [""];
  if (names[0]) return names.length > 3 ? `${names[0]} to ${names[names.length - 1]}` : names.join(", ");
  const { lower, upper } = boxOf(tree, region);
  return tree.box.names.map((name, axis) => {
    const digits = Math.min(20, Math.max(0, Math.ceil(2 - Math.log10(upper[axis] - lower[axis])))); // hundredths of the side
    const [low, high] = [lower[axis], upper[axis]].map((end) => Number(end.toFixed(digits)));
    return `${name} ${low} to ${high}`;
  }).join(", ");
}

/** Lengths of sides in words; a label has one unit. @param {Task["tree"]} tree @param {number[]} sides */
function sidesWords(tree, sides) {
  if (tree.leafNames.length) return `${sides[0]} ${sides[0] === 1 ? "label" : "labels"}`;
  return sides.map((side) => Number(side.toPrecision(2))).join(" x ") + (tree.isGeographic ? " km" : "");
}

/** A release that asks, with its loss. @param {Plan} plan @param {number} index */
function releaseLine(plan, index) {
  const release = plan.releases[index];
  const own = isOwn(release) ? ownOf(plan) : null;
  return `${releaseWords(release)} (epsilon = ${short(release.mechanism?.epsilon ?? 0)}, delta = 0, between ${own ? `any two values of ${ownWords(own)}` : INSIDE})`;
}

/** What one task costs at most, each loss with its adjacency and delta. @param {Task} task @param {Plan} plan */
function costLines(task, plan) {
  const more = withValues(ownOf(plan));
  const loss = epsilonOfTask(task) + plan.epsilon;
  const odds = Number((100 / (1 + Math.exp(-loss))).toPrecision(3));
  const lines = [`Protected: where you are inside that region${more ? ", and your own value" : ""}. epsilon = ${short(loss)} (delta = 0) between ${INSIDE}${more}: what you send moves even odds to at most ${odds} %. Between two places on the same side of every line that you were asked about, your answers tell nothing.`];
  if (plan.asked.length) lines.push(`Included: ${plan.asked.map((index) => releaseLine(plan, index)).join("; ")}.`);
  return lines;
}

/** What will be known to whom, before anything is sent. @param {Task} task @param {Plan} plan */
export function beforeLines(task, plan) {
  const { tree } = task;
  const smallest = tree.smallestSides(tree.maxDepth).map((side, axis) => Math.max(side, task.min_side[axis] ?? task.min_side[0] ?? 0));
  const early = task.quorum < 1 ? ` A round may close when ${short(100 * task.quorum)} % have answered: the others may keep a larger region.` : "";
  const crowd = keepsCrowd(task)
    ? `When it is drawn, at least k = ${task.k} participants, you included, are in it, if so many take part; the chance that this fails for you is at most delta = ${task.delta}.${early}`
    : "No crowd is promised: you may be alone in your region, and everybody would see it.";
  return [
    `Known to everybody, under a name made for this campaign: which region you are in, without any protection, and your noisy answers, at most ${task.answers} of them about ${task.answers === 1 ? "a line" : "lines"} inside it. ${crowd}`,
    ...costLines(task, plan),
    `Known to this server alone: that a browser at your network address takes part. It is not stored.`,
    `If this server lies about the others, your crowd may be made up and you can be led to a region that holds little more than a cell of about ${sidesWords(tree, smallest)}; the loss inside it is still at most epsilon = ${short(epsilonOfTask(task) + plan.epsilon)} (delta = 0).`,
    `Your exact position${ownOf(plan) ? " and your own value never leave" : " never leaves"} this device. Between different regions nothing is hidden.`,
  ];
}

/** The cells around a position, from the whole domain down. @param {Task} task @param {number[]} position */
export function ladder(task, position) {
  const { tree } = task;
  const code = tree.codeOf(position);
  return Array.from({ length: tree.maxDepth + 1 }, (_, depth) => {
    const cell = tree.ancestor(code, depth);
    return { depth, cell, place: placeWords(tree, tree.interval(cell)), size: sidesWords(tree, tree.sides(cell)) };
  }).filter(({ cell, depth }) => depth === 0 || tree.isLongEnough(cell, task.min_side));
}

/** What will be known to whom with two servers, before anything is sent. @param {PairTask} pair */
export function beforePairLines(pair) {
  const [smallest, bucket] = [pair.tree.maxDepth, pair.bucket_depth].map((depth) => sidesWords(pair.tree, pair.tree.smallestSides(depth)));
  const hidden = [...(pair.maps || !ownOfPair(pair) ? [`where you are${pair.bucket_depth ? " inside your bucket" : ""}`] : []), ...(ownOfPair(pair) ? ["your own value"] : [])];
  return [
    EXPERIMENTAL,
    `${collusionWords(pair)}${pair.maps ? ` The smallest cell is about ${smallest}.` : ""}`,
    `The operators: ${pair.leader.name} at ${pair.leader.origin} and ${pair.helper.name} at ${pair.helper.origin}. Take part only if you believe that they do not work together.`,
    ...(pair.bucket_depth ? [`Known to everybody, without any protection: your bucket, one of ${2 ** pair.bucket_depth} cells, of about ${bucket}.`] : []),
    ...(pair.maps ? [] : [ownOfPair(pair) ? "No place is sent, and nothing about places is published." : `Of a place only ${pair.asked?.name} is sent, in shares; no map is made.`]),
    `Protected: ${hidden.join(", and ")}. ${lossWords(pair)}, against everybody who sees the result and against either operator alone.`,
    `Known to ${pair.leader.name}: that a browser at your network address uploaded. Known to everybody: how many did.`,
  ];
}
