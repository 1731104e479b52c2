// The plan of values, pinned with the task (spec/protocol.md, section 13.1). Knows parameters. Knows no positions.

import { check } from "#device/errors.js";
import { isVisible } from "#device/cells.js";
import { bytes, float, list, oneOf, optional, tagged, text, tuple } from "#device/fields.js";
import { readMechanism } from "#device/layout.js";
import { unpack } from "#device/msgpack.js";
import { sha256 } from "#device/sha256.js";

/** @typedef {ReturnType<typeof readRelease>} Release */
/** @typedef {{task: Uint8Array, releases: Release[], asked: number[], epsilon: number, digest: Uint8Array, bytes: Uint8Array}} Plan */

/** @typedef {{name: string, low: number, high: number}} Own an own value and its public range */
/** @typedef {{function: string, parameters: number[]}} Asked */

const FUNCTIONS = ["coordinate", "squared_norm", "gaussian_bump", "linear", "indicator"];
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
  check(mechanism !== null && (own || FUNCTIONS.includes(name)), `${kind} needs a mechanism and a function; got ${name}`);
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
  if (name === "coordinate") check(numbers.length === 1 && Number.isInteger(numbers[0]) && numbers[0] >= 0, "coordinate takes one whole number, the axis");
  if (name === "linear") check(numbers.length >= 2, "linear takes an intercept and one weight per axis");
  if (name === "gaussian_bump") {
    const square = 2 * numbers[0] * numbers[0];
    check(numbers[0] > 0 && square > 0 && square < Infinity, "gaussian_bump takes a positive sigma");
  }
  if (name === "indicator") {
    const half = numbers.length / 2;
    const corners = { lower: numbers.slice(0, half), upper: numbers.slice(half) };
    check(half >= 1 && half <= 8 && Number.isInteger(half) && corners.lower.every((low, i) => low < corners.upper[i] && Number.isFinite(corners.upper[i] - low)), "indicator takes a lower and an upper corner");
  }
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

/** What else may differ between two positions: the owner's own value. @param {Own | null} own */
export const withValues = (own) => (own ? `, with any two values of ${ownWords(own)}` : "");

/** A release in words. @param {Release} release */
export function releaseWords({ kind, function: name, parameters }) {
  if (name.startsWith(OWN)) return `${kind} of ${name.slice(OWN.length)}`;
  return name ? `${kind} of ${name}(${parameters.join(", ")})` : kind;
}
