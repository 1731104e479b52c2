// What a device tells its owner before anything is sent: what will be known to whom, and the regions it may end in. Every
// epsilon stands with its adjacency and delta. Knows numbers and words.

import { EXPERIMENTAL, collusionWords, lossWords, ownOfPair } from "#device/pair.js";
import { epsilonOfTask, epsilonWorst, keepsCrowd } from "#device/task.js";
import { isOwn, ownOf, ownWords, releaseWords, withValues } from "#device/plan.js";

/** @typedef {import("#device/task.js").Task} Task */
/** @typedef {import("#device/plan.js").Plan} Plan */
/** @typedef {import("#device/pair.js").PairTask} PairTask */

export const INSIDE = "any two positions inside your published region";
export const MOVED = "a moved position over any position inside the region it was moved to";

/** @param {number} number */
export const short = (number) => String(Number(number.toPrecision(6)));

/** A cell as intervals per axis. @param {Task["tree"]} tree @param {bigint} cell */
export function placeWords(tree, cell) {
  const label = "nameOf" in tree ? tree.nameOf(cell) : "";
  if (label) return label;
  const { lower, upper } = tree.corners(cell);
  return tree.box.names.map((name, axis) => {
    const digits = Math.min(20, Math.max(0, Math.ceil(2 - Math.log10(upper[axis] - lower[axis])))); // hundredths of the side
    const [from, to] = [lower[axis], upper[axis]].map((end) => Number(end.toFixed(digits)));
    return `${name} ${from} to ${to}`;
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
  const inside = epsilonOfTask(task) + plan.epsilon;
  const worst = epsilonWorst(task) + plan.epsilon;
  const factor = Number(Math.exp(Math.min(inside, 700)).toPrecision(3));
  const lines = [`Protected: where you are inside that region${more ? ", and your own value" : ""}. epsilon = ${short(inside)} (delta = 0) between ${INSIDE}${more}: what you send changes the odds between the two by a factor of at most ${factor}.`];
  if (task.max_trims) lines.push(`If you are in a sparse part, your device may act from a place that you are not at. Then it is up to epsilon = ${short(worst)} (delta = 0) for ${MOVED}${more}, in this direction only; nothing is promised between two moved positions.`);
  if (plan.asked.length) lines.push(`Included: ${plan.asked.map((index) => releaseLine(plan, index)).join("; ")}.`);
  return lines;
}

/** What will be known to whom, before anything is sent. @param {Task} task @param {Plan} plan */
export function beforeLines(task, plan) {
  const { tree } = task;
  const smallest = tree.smallestSides(task.max_rounds).map((side, axis) => Math.max(side, task.min_side[axis] ?? task.min_side[0] ?? 0));
  const early = task.quorum < 1 ? ` A round may close when ${short(100 * task.quorum)} % of those expected have answered: the others are then out, and fewer may be published in your region.` : "";
  const crowd = keepsCrowd(task)
    ? `At least k = ${task.k} participants are published in your region, you included, if so many take part and nobody drops out, except with probability delta = ${task.delta}.${early}`
    : "No crowd is promised: you may be alone in your region, and everybody would see it.";
  return [
    `Known to everybody, without any protection: the region your device ends in, its crowd, and in which rounds it answered, under a name made for this campaign. ${crowd}`,
    ...costLines(task, plan),
    `Known to this server alone: that a browser at your network address takes part. It is not stored.`,
    `If this server lies about the others, your crowd may be made up and you can be led to a cell of about ${sidesWords(tree, smallest)}; that exposes up to epsilon = ${short(task.max_rounds * epsilonOfTask(task) + plan.epsilon)} (delta = 0) between positions in the same smallest cell.`,
    `Your exact position${ownOf(plan) ? " and your own value never leave" : " never leaves"} this device. Between positions in different regions nothing is hidden.`,
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
