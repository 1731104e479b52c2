// How a number from 0 to 1 becomes an integer (spec/protocol.md, sections 15.5 and 15.6). Knows words and weights. Knows
// no functions and no regions.

import { check } from "#device/errors.js";
import { ONE, WORD, ceil, exp, expBelow, fixed, floor, over, times } from "#device/exact.js";
import { float, integer, map, oneOf } from "#device/fields.js";
import { placeOf } from "#device/randomizer.js";

/** @typedef {import("#device/msgpack.js").Value} Value */
/** @typedef {{type: string, epsilon: number, outputs?: number, window?: number, end?: number, gap?: number, bend?: number, steps?: number}} Mechanism */
/** @typedef {{share: bigint, outputs: number, low: bigint, step: bigint, floor: bigint, starts: bigint[]}} Window */

const GRID = 2 ** 20;
const BUCKETS = 2 ** 14;
const SHARE = 2n ** 48n;
const TYPES = ["two-point", "piecewise", "hybrid", "sliding-window", "discrete-laplace"];
const MORE = {
  "sliding-window": { outputs: integer(2, 2048), window: integer(1, 1024), end: integer(0, 10000), gap: integer(1, 10000), bend: integer(0, 99) },
  "discrete-laplace": { steps: integer(1, 1024) },
};

/** @param {Value} value @returns {Mechanism} */
export function readMechanism(value) {
  const type = /** @type {unknown} */ (value instanceof Map ? value.get("type") : null);
  const more = type === "sliding-window" || type === "discrete-laplace" ? MORE[type] : {};
  const fields = /** @type {Mechanism} */ (map({ type: oneOf(...TYPES), epsilon: float, ...more })(value));
  check(fields.epsilon >= 0.01 && fields.epsilon <= 16, `the epsilon of one value is from 0.01 to 16; got ${fields.epsilon}`);
  if (type === "sliding-window") {
    const { outputs, window } = layout(fields);
    check(outputs % 2 === 0 && window <= outputs / 2, "outputs is even, and window at most half of it");
    const found = knots(fields);
    check(found.every((knot, i) => i === 0 || found[i - 1] < knot), "the layout is finer than the buckets allow");
  }
  return fields;
}

/** @param {Mechanism} mechanism */
function layout({ outputs, window, end, gap, bend }) {
  return { outputs: Number(outputs), window: Number(window), end: Number(end), gap: Number(gap), bend: Number(bend) };
}

/** To the nearest integer, halves to the even one. @param {number} x at least 0 */
function nearest(x) {
  const below = Math.floor(x);
  const rest = x - below;
  return rest > 0.5 || (rest === 0.5 && below % 2 === 1) ? below + 1 : below;
}

/** Sums of the first 0, 1, 2, … numbers, one after the other. @param {number[]} numbers */
function running(numbers) {
  const out = [0];
  for (const number of numbers) out.push(out[out.length - 1] + number);
  return out;
}

/** The buckets at which the window starts at whole outputs. @param {Mechanism} mechanism */
function knots(mechanism) {
  const { outputs, window, end, gap, bend } = layout(mechanism);
  const middle = outputs / 2 - window;
  const spacing = Array.from({ length: middle }, (_, i) => {
    const share = i / Math.max(middle, 1);
    return Math.sqrt(1 - (bend / 100) * (share * share));
  });
  spacing.push(gap / 100, .../** @type {number[]} */ (Array(window - 1).fill(end / 100)));
  spacing[0] /= 2;
  const upper = running(spacing).slice(1);
  const sum = running(upper.slice(-window))[window];
  const sums = running([...[...upper].reverse().map((value) => -value / sum), ...upper.map((value) => value / sum)]);
  const starts = outputs - window + 1;
  const lower = Array.from({ length: Math.floor(starts / 2) }, (_, i) => nearest((1 + (sums[i + window] - sums[i])) * (BUCKETS / 2)));
  const half = starts % 2 ? [BUCKETS / 2] : [];
  return [...lower, ...half, ...[...lower].reverse().map((knot) => BUCKETS - knot)];
}

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

/** Smallest and largest output. @param {Mechanism} mechanism @returns {[number, number]} */
export function alphabet(mechanism) {
  if (mechanism.type !== "discrete-laplace") return [0, windowsOf(mechanism).reduce((sum, window) => sum + window.outputs, 0) - 1];
  const { reach } = valueNoise(mechanism.epsilon, Number(mechanism.steps));
  return [Number(mechanism.steps) - reach, reach];
}

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
