// How a number from 0 to 1 becomes an integer (spec/protocol.md, sections 13.5 and 13.6). Knows words and weights. Knows
// no functions and no regions.

import { ONE, WORD, ceil, exp, expBelow, fixed, floor, over, times } from "#device/exact.js";
import { BUCKETS, knots, layout, nearest } from "#device/layout.js";
import { placeOf } from "#device/randomizer.js";

/** @typedef {import("#device/layout.js").Mechanism} Mechanism */
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
