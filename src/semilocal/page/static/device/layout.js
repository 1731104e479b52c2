// Mechanisms for numbers from 0 to 1: their parameters, and the layout of windows (spec/protocol.md, section 13.5). Knows
// no words and no weights.

import { check } from "#device/errors.js";
import { float, integer, map, oneOf } from "#device/fields.js";

/** @typedef {import("#device/msgpack.js").Value} Value */
/** @typedef {{type: string, epsilon: number, outputs?: number, window?: number, end?: number, gap?: number, bend?: number, steps?: number}} Mechanism */

export const BUCKETS = 2 ** 14;
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
export function layout({ outputs, window, end, gap, bend }) {
  return { outputs: Number(outputs), window: Number(window), end: Number(end), gap: Number(gap), bend: Number(bend) };
}

/** To the nearest integer, halves to the even one. @param {number} x at least 0 */
export function nearest(x) {
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
export function knots(mechanism) {
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
