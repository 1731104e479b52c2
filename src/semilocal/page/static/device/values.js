// The functions of a position and their scaling, and how a number from 0 to 1 becomes an integer (spec/protocol.md, sections
// 13.3 to 13.6). Knows functions, boxes, words and weights. Knows no participants.

import { InvalidInput, spacing } from "#device/base.js";
import { BUCKETS, isOwn, knots, layout, nearest, ownWords } from "#device/plan.js";
import { ONE, WORD, ceil, exp, expBelow, fixed, floor, over, placeOf, times } from "#device/randomizer.js";

/** @typedef {import("#device/plan.js").Asked} Asked */
/** @typedef {import("#device/plan.js").Mechanism} Mechanism */
/** @typedef {{lower: number[], upper: number[]}} Corners */

/** Why a function does not fit a domain; empty if it does. @param {Asked} release @param {Corners} box */
export function misfit(release, box) {
  if (isOwn(release)) return "";
  const { function: name, parameters: numbers } = release;
  const axes = box.lower.length;
  const center = name === "gaussian_bump" ? numbers.length - 1 : numbers.length;
  const fits = name === "coordinate" ? numbers[0] < axes
    : name === "linear" ? numbers.length === axes + 1
    : name === "indicator" ? numbers.length === 2 * axes
    : center === 0 || center === axes;
  if (!fits) return `${name} does not fit a domain of ${axes} axes`;
  const [low, high] = functionRange(name, numbers, box);
  return Number.isFinite(low) && Number.isFinite(high) && Number.isFinite(high - low) ? "" : `${name} has no range of finite width over the domain`;
}

/** @param {number} start @param {number[]} terms */
const inOrder = (start, terms) => terms.reduce((sum, term) => sum + term, start);

/** @param {number[]} distances */
const squares = (distances) => inOrder(0, distances.map((distance) => distance * distance));

/** @param {number} square @param {number} sigma */
const bump = (square, sigma) => Math.exp(-(square / (2 * sigma * sigma)));

/** @param {string} name @param {number[]} numbers @param {number[]} x */
export function functionValue(name, numbers, x) {
  if (name === "coordinate") return x[numbers[0]];
  if (name === "linear") return inOrder(numbers[0], x.map((a, axis) => a * numbers[axis + 1]));
  if (name === "indicator") return x.every((a, axis) => numbers[axis] <= a && a <= numbers[x.length + axis]) ? 1 : 0;
  const center = name === "gaussian_bump" ? numbers.slice(1) : numbers;
  const square = squares(center.length ? x.map((a, axis) => a - center[axis]) : x);
  return name === "gaussian_bump" ? bump(square, numbers[0]) : square;
}

/** Lower and upper bound over a closed box. @param {string} name @param {number[]} numbers @param {Corners} box @returns {[number, number]} */
export function functionRange(name, numbers, { lower, upper }) {
  if (name === "coordinate") return [lower[numbers[0]], upper[numbers[0]]];
  if (name === "linear") {
    const ends = lower.map((a, axis) => [a * numbers[axis + 1], upper[axis] * numbers[axis + 1]]);
    return [inOrder(numbers[0], ends.map((pair) => Math.min(...pair))), inOrder(numbers[0], ends.map((pair) => Math.max(...pair)))];
  }
  if (name === "indicator") {
    const axes = lower.length;
    const inside = lower.every((a, axis) => numbers[axis] <= a && upper[axis] <= numbers[axes + axis]);
    const meets = lower.every((a, axis) => a <= numbers[axes + axis] && numbers[axis] <= upper[axis]);
    return [inside ? 1 : 0, meets ? 1 : 0];
  }
  const center = name === "gaussian_bump" ? numbers.slice(1) : numbers;
  const [low, high] = [lower, upper].map((corner) => (center.length ? corner.map((a, axis) => a - center[axis]) : corner));
  const near = squares(low.map((a, axis) => Math.max(a, -high[axis], 0)));
  const far = squares(low.map((a, axis) => Math.max(-a, high[axis])));
  if (name === "squared_norm") return [near, far];
  const [least, most] = [bump(far, numbers[0]), bump(near, numbers[0])];
  const slack = 8 * spacing(Math.max(Math.abs(least), Math.abs(most)));
  return [Math.min(Math.max(least - slack, 0), 1), Math.min(Math.max(most + slack, 0), 1)];
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

/** @typedef {{share: bigint, outputs: number, low: bigint, step: bigint, floor: bigint, starts: bigint[]}} Window */

const GRID = 2 ** 20;
const SHARE = 2n ** 48n;

/** @param {number} epsilon @param {bigint} share @param {number} outputs @param {number} window @param {[number, number][]} corners @returns {Window} */
function buildWindow(epsilon, share, outputs, window, corners) {
  const growth = expBelow(fixed(epsilon));
  const low = ceil(over(share * ONE, BigInt(outputs) * ONE + BigInt(window) * (growth - ONE)));
  const step = (share - BigInt(outputs) * low) / BigInt(window);
  const starts = [0n];
  for (let i = 1; i < corners.length; i++) {
    const [[bucket, output], [nextBucket, nextOutput]] = [corners[i - 1], corners[i]];
    const width = nextBucket - bucket;
    const rise = BigInt(nextOutput - output) * step;
    for (let j = 1; j <= width; j++) starts.push(BigInt(output) * step + (rise * BigInt(j)) / BigInt(width));
  }
  return { share, outputs, low, step, floor: share - BigInt(window) * step, starts };
}

/** @param {Window} window @param {number} position a step of the grid @param {bigint} drawn below the share */
function pick(window, position, drawn) {
  if (drawn < window.floor) return Math.min(Number(drawn / window.low), window.outputs - 1);
  const bucket = Math.floor(position / 64);
  const within = position % 64;
  let start = window.starts[bucket];
  if (within) start += ((window.starts[bucket + 1] - start) * BigInt(within)) / 64n;
  return Number((start + drawn - window.floor) / window.step);
}

/** @param {Mechanism} mechanism @returns {Window[]} */
function windowsOf(mechanism) {
  const { type, epsilon } = mechanism;
  const twoPoint = (/** @type {bigint} */ share) => buildWindow(epsilon, share, 2, 1, [[0, 0], [BUCKETS, 1]]);
  if (type === "two-point" || (type === "hybrid" && epsilon <= 0.61)) return [twoPoint(SHARE)];
  if (type === "sliding-window") {
    const { outputs, window } = layout(mechanism);
    return [buildWindow(epsilon, SHARE, outputs, window, knots(mechanism).map((knot, i) => [knot, i]))];
  }
  const root = exp(fixed(epsilon / 2));
  const outputs = Number(floor(32n * (ONE + root) + ONE / 2n));
  const first = type === "hybrid" ? floor(SHARE * (ONE - over(ONE, root))) : SHARE;
  const piecewise = buildWindow(epsilon, first, outputs, 32, [[0, 0], [BUCKETS, outputs - 32]]);
  return type === "piecewise" ? [piecewise] : [piecewise, twoPoint(SHARE - first)];
}

/** Weights of -reach to reach steps of noise. @param {number} epsilon @param {number} steps */
function valueNoise(epsilon, steps) {
  const factor = over(ONE, exp(fixed(epsilon * (1 - 2 ** -12)) / BigInt(steps)));
  const least = over((2n ** 14n) * ONE, fixed(epsilon));
  const tails = /** @type {bigint[]} */ ([]);
  for (let tail = over(WORD * factor, ONE + factor); times(tail, ONE - factor) > least; tail = times(tail, factor)) tails.push(floor(tail));
  const outer = tails.map((tail, i) => tail - (tails[i + 1] ?? 0n));
  const inner = WORD - 2n * outer.reduce((a, b) => a + b, 0n);
  let sum = 0n;
  return { reach: outer.length, sums: [...[...outer].reverse(), inner, ...outer].map((weight) => (sum += weight)) };
}

/** Words that one value takes. @param {Mechanism} mechanism */
export const valueWordCount = (mechanism) => (mechanism.type === "discrete-laplace" ? 2 : 1);

/** What is reported of a number from 0 to 1. @param {Mechanism} mechanism @param {number} unit @param {bigint[]} words */
export function outputOf(mechanism, unit, words) {
  const position = nearest(unit * GRID);
  if (mechanism.type === "discrete-laplace") {
    const steps = Number(mechanism.steps);
    const { reach, sums } = valueNoise(mechanism.epsilon, steps);
    const above = (position * steps) % GRID;
    const place = Math.floor((position * steps) / GRID) + (Number(words[1] >> 44n) < above ? 1 : 0);
    return Math.min(Math.max(place + placeOf(sums, words[0]) - reach, steps - reach), reach);
  }
  let drawn = words[0] >> 16n;
  let before = 0;
  const windows = windowsOf(mechanism);
  const last = windows[windows.length - 1];
  for (const window of windows) {
    if (window === last || drawn < window.share) return before + pick(window, position, drawn);
    drawn -= window.share;
    before += window.outputs;
  }
  throw new RangeError("unreachable");
}
