// The plan of values, pinned with the task, and the parameters of its mechanisms (spec/protocol.md, section 13). Knows
// parameters. Knows no positions and no words.

/** @import { Value } from "#device/wire.js" */
import { sha256 } from "#vendor/noble-hashes.js";
import { check, mustBeHere } from "#device/base.js";
import { isVisible } from "#device/trees.js";
import { bytes, fieldOf, float, integer, list, map, oneOf, optional, tagged, text, tuple, unpack } from "#device/wire.js";

/** @typedef {{type: string, epsilon: number, outputs?: number, window?: number, end?: number, gap?: number, bend?: number}} Mechanism */

export const BUCKETS = 2 ** 14;
const LAYOUT = { outputs: integer(2, 2048), window: integer(1, 1024), end: integer(0, 10000), gap: integer(1, 10000), bend: integer(0, 99) };

/** @param {Value} value @returns {Mechanism} */
export function readMechanism(value) {
  const type = /** @type {unknown} */ (fieldOf(value, "type"));
  const more = type === "sliding-window" ? LAYOUT : {};
  const fields = /** @type {Mechanism} */ (map({ type: oneOf("two-point", "sliding-window"), epsilon: float, ...more })(value));
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

/** @typedef {ReturnType<typeof readRelease>} Release */
/** @typedef {{task: Uint8Array, releases: Release[], asked: number[], epsilon: number, digest: Uint8Array, bytes: Uint8Array}} Plan */

/** @typedef {{name: string, low: number, high: number}} Own an own value and its public range */
/** @typedef {{function: string, parameters: number[]}} Asked */

const OWN = "own:"; // before the name of a value of the owner's own
const readRelease = tuple({
  kind: oneOf("mean", "values", "counts", "points"), mechanism: optional(readMechanism), function: text, parameters: list(float, 64),
});
const readFields = tagged("plan", { task: bytes(32), releases: list(readRelease, 64) });

/** The plan in canonical bytes; anything else is refused. @param {Uint8Array} data @returns {Plan} */
export function readPlan(data) {
  const { task, releases } = readFields(unpack(data));
  releases.forEach(checkRelease);
  check(releases.filter(isOwn).length <= 1, "a plan asks for one value of people's own");
  const asked = [...releases.keys()].filter((index) => releases[index].mechanism !== null);
  const epsilon = releases.reduce((sum, { mechanism }) => sum + (mechanism?.epsilon ?? 0), 0);
  return { task, releases, asked, epsilon, digest: sha256(data), bytes: data };
}

/** @param {Release} release */
function checkRelease({ kind, mechanism, function: name, parameters: numbers }) {
  if (kind === "counts" || kind === "points") {
    check(mechanism === null && name === "" && numbers.length === 0, `${kind} follow from the crowds: no mechanism and no function`);
    return;
  }
  const own = name.startsWith(OWN);
  check(mechanism !== null, `${kind} needs a mechanism`);
  if (own) {
    check(isVisible(name.slice(OWN.length), 100), "a name has 1 to 100 visible characters");
    check(numbers.length === 2, "an own value has two limits");
    checkRange(numbers[0], numbers[1]);
  } else checkFunction(name, numbers);
}

/** @param {number} low @param {number} high */
export function checkRange(low, high) {
  check(low < high && Number.isFinite(high - low), `a range has its smallest first and a finite width; got ${low} to ${high}`);
}

/** Refuse parameters that a function of the position does not take. @param {string} name @param {number[]} numbers */
export function checkFunction(name, numbers) {
  mustBeHere(name === "coordinate" || name === "linear", `a campaign that asks for the function ${name.slice(0, 40)}`);
  if (name === "coordinate") check(numbers.length === 1 && Number.isInteger(numbers[0]) && numbers[0] >= 0, "coordinate takes one whole number, the axis");
  if (name === "linear") check(numbers.length >= 2, "linear takes an intercept and one weight per axis");
}

/** Whether it asks for a number of the owner's own. @param {Asked} release */
export const isOwn = ({ function: name }) => name.startsWith(OWN);

/** The own value that a plan asks for, if it does. @param {Plan} plan @returns {Own | null} */
export function ownOf({ releases }) {
  const found = releases.find(isOwn);
  return found ? { name: found.function.slice(OWN.length), low: found.parameters[0], high: found.parameters[1] } : null;
}

/** @param {Own} own */
export const ownWords = ({ name, low, high }) => `${name} from ${low} to ${high}`;
