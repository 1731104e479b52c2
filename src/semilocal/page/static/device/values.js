// The functions of a position and their scaling, and how a number from 0 to 1 becomes an integer (spec/protocol.md, sections
// 13.3 to 13.5). Knows functions, boxes, words and weights. Knows no participants.

/** @import { Asked, Mechanism } from "#device/plan.js" */
import { InvalidInput } from "#device/base.js";
import { BUCKETS, isOwn, knots, layout, nearest, ownWords } from "#device/plan.js";
import { ONE, ceil, expBelow, fixed, over } from "#device/randomizer.js";

/** @typedef {{lower: number[], upper: number[]}} Corners */

/** Why a function does not fit a domain; empty if it does. @param {Asked} release @param {Corners} box */
export function misfit(release, box) {
  if (isOwn(release)) return "";
  const { function: name, parameters: numbers } = release;
  const axes = box.lower.length;
  if (!(name === "coordinate" ? numbers[0] < axes : numbers.length === axes + 1)) return `${name} does not fit a domain of ${axes} axes`;
  const [low, high] = functionRange(name, numbers, box);
  return Number.isFinite(low) && Number.isFinite(high) && Number.isFinite(high - low) ? "" : `${name} has no range of finite width over the domain`;
}

/** @param {number} start @param {number[]} terms */
const inOrder = (start, terms) => terms.reduce((sum, term) => sum + term, start);

/** @param {string} name @param {number[]} numbers @param {number[]} x */
export function functionValue(name, numbers, x) {
  return name === "coordinate" ? x[numbers[0]] : inOrder(numbers[0], x.map((a, axis) => a * numbers[axis + 1]));
}

/** Lower and upper bound over a closed box. @param {string} name @param {number[]} numbers @param {Corners} box @returns {[number, number]} */
export function functionRange(name, numbers, { lower, upper }) {
  if (name === "coordinate") return [lower[numbers[0]], upper[numbers[0]]];
  const ends = lower.map((a, axis) => [a * numbers[axis + 1], upper[axis] * numbers[axis + 1]]);
  return [inOrder(numbers[0], ends.map((pair) => Math.min(...pair))), inOrder(numbers[0], ends.map((pair) => Math.max(...pair)))];
}

/**
 * The number from 0 to 1 that goes through the mechanism: the value, clipped to a range and scaled.
 * @param {Asked} release @param {number[]} x @param {number | null} own the owner's own value, if it asks for it @param {{low: number, high: number}} clip
 */
export function clippedValue(release, x, own, { low, high }) {
  const value = isOwn(release) ? Number(own) : functionValue(release.function, release.parameters, x);
  return high > low ? Math.min(Math.max((value - low) / (high - low), 0), 1) : 0.5;
}

/** Refuse an owner's value that is outside its range, missing, or not asked for. @param {import("#device/plan.js").Own | null} own what is asked @param {number | null} value */
export function checkOwn(own, value) {
  if (own === null && value !== null) throw new InvalidInput("the campaign asks for no value of your own; leave it out");
  if (own !== null && value === null) throw new InvalidInput(`the campaign asks for ${ownWords(own)}: give your value`);
  if (own !== null && value !== null && !(own.low <= value && value <= own.high)) throw new InvalidInput(`your value is outside the public range, ${ownWords(own)}; nothing was sent`);
}

/** @typedef {{outputs: number, low: bigint, step: bigint, floor: bigint, starts: bigint[]}} Window */

const GRID = 2 ** 20;
const SHARE = 2n ** 48n;

/** @param {number} epsilon @param {number} outputs @param {number} window @param {number[]} knots @returns {Window} */
function buildWindow(epsilon, outputs, window, knots) {
  const growth = expBelow(fixed(epsilon));
  const low = ceil(over(SHARE * ONE, BigInt(outputs) * ONE + BigInt(window) * (growth - ONE)));
  const step = (SHARE - BigInt(outputs) * low) / BigInt(window);
  const starts = [0n];
  for (let i = 1; i < knots.length; i++) {
    const width = BigInt(knots[i] - knots[i - 1]);
    for (let j = 1n; j <= width; j++) starts.push(BigInt(i - 1) * step + (step * j) / width);
  }
  return { outputs, low, step, floor: SHARE - BigInt(window) * step, starts };
}

/** @param {Mechanism} mechanism */
function windowOf(mechanism) {
  const { type, epsilon } = mechanism;
  if (type === "two-point") return buildWindow(epsilon, 2, 1, [0, BUCKETS]);
  const { outputs, window } = layout(mechanism);
  return buildWindow(epsilon, outputs, window, knots(mechanism));
}

/** What is reported of a number from 0 to 1. @param {Mechanism} mechanism @param {number} unit @param {bigint} word */
export function outputOf(mechanism, unit, word) {
  const window = windowOf(mechanism);
  const position = nearest(unit * GRID);
  const drawn = word >> 16n;
  if (drawn < window.floor) return Math.min(Number(drawn / window.low), window.outputs - 1);
  const bucket = Math.floor(position / 64);
  const within = position % 64;
  let start = window.starts[bucket];
  if (within) start += ((window.starts[bucket + 1] - start) * BigInt(within)) / 64n;
  return Number((start + drawn - window.floor) / window.step);
}
