// How the part that a participant is in becomes an answer (spec/protocol.md, section 8). Words decide by comparisons of
// integers only: e^x and quotients have more than 100 decimal digits, as integers of units of 2^-448. Knows parts and words.
// Knows no regions and no crowds.

/** @import { Noise as Fields } from "#device/task.js" */
import { exactUnits, ServerViolation } from "#device/base.js";
import { epsilonOf } from "#device/task.js";

/** @typedef {number | number[]} Answer */
/** @typedef {{edge: number, weights: bigint[], sums: bigint[]}} Weights of the values -edge to edge + 1, and their running sums */

const BITS = 448n;
export const ONE = 1n << BITS;
export const WORD = 1n << 64n;
const HALVINGS = 16n;
const BELOW = 10n ** 55n;

/** A double without rounding; it must be a multiple of 2^-448. @param {number} x */
export const fixed = (x) => exactUnits(x) >> (1074n - BITS);

/** @param {bigint} a @param {bigint} b both in units */
export const times = (a, b) => (a * b) >> BITS;

/** @param {bigint} a @param {bigint} b both in units */
export const over = (a, b) => (a << BITS) / b;

/** e^x for x from 0 to 64, both in units. @param {bigint} x */
export function exp(x) {
  const small = x >> HALVINGS;
  let [sum, term] = [ONE, ONE];
  for (let i = 1n; term > 0n; i++) {
    term = times(term, small) / i;
    sum += term;
  }
  for (let i = 0n; i < HALVINGS; i++) sum = times(sum, sum);
  return sum;
}

/** e^x, a relative 10^-55 smaller than it is, so that rounding falls on the private side. @param {bigint} x in units */
export function expBelow(x) {
  const value = exp(x);
  return value - value / BELOW;
}

/** The integer part. @param {bigint} x in units, at least 0 */
export const floor = (x) => x >> BITS;

/** The smallest integer that is not less. @param {bigint} x in units */
export const ceil = (x) => -(-x >> BITS);

const LOG_44 = 30.498475944637194; // -ln(2^-44)
const LOG_60 = 41.58883083359672; // -ln(2^-60)

/** @template T @param {(epsilon: number, more: number) => T} build */
function remembered(build) {
  /** @type {Map<string, T>} */
  const known = new Map();
  return (/** @type {number} */ epsilon, more = 0) => {
    const key = `${epsilon} ${more}`;
    const found = known.get(key) ?? build(epsilon, more);
    if (known.size > 64) known.clear();
    known.set(key, found);
    return found;
  };
}

/** Weights of the true child and of each other one, out of 2^64. */
export const responseWeights = remembered((epsilon, fanout) => {
  const others = BigInt(fanout - 1);
  const other = ceil(over(WORD * ONE, exp(fixed(epsilon)) + others * ONE));
  return { true: WORD - others * other, other };
});

/** Weights of discrete Laplace noise on an entry that is 0. @type {(epsilon: number) => Weights} */
export const laplaceNoise = remembered((epsilon) => {
  const half = epsilon / 2;
  const edge = Math.min(Math.ceil(LOG_44 / half), Math.floor(LOG_60 / half) - 1);
  const growth = expBelow(fixed(epsilon) / 2n);
  const decay = over(ONE, growth);
  const [near, far] = [/** @type {bigint[]} */ ([]), /** @type {bigint[]} */ ([])];
  let height = over(WORD * (ONE - decay), ONE + decay);
  for (let i = 0; i <= edge; i++) {
    const mass = i === edge ? over(height, ONE - decay) : height;
    far.push(floor(times(mass, decay)));
    const most = floor(far[i] * growth);
    near.push(floor(mass) < most ? floor(mass) : most);
    height = times(height, decay);
  }
  const left = WORD - [...near, ...far].reduce((a, b) => a + b, 0n);
  near[0] += left / 2n;
  far[0] += left - left / 2n;
  const weights = [...near.reverse(), ...far];
  let sum = 0n;
  return { edge, weights, sums: weights.map((weight) => (sum += weight)) };
});

/** The first place whose running sum exceeds a word. @param {bigint[]} sums @param {bigint} word */
export function placeOf(sums, word) {
  let [low, high] = [0, sums.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sums[middle] > word) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The same noise for another number of parts. @param {Fields} fields @param {number} width @returns {Fields} */
export const forWidth = (fields, width) => (width === fields.fanout ? fields : { ...fields, fanout: width });

/** Words that one answer takes. @param {Fields} fields */
export const wordCount = (fields) => (fields.kind === "randomized-response" ? 1 : fields.fanout);

/** One answer. @param {Fields} fields @param {number} child @param {bigint[]} words @returns {Answer} */
export function respond(fields, child, words) {
  if (fields.kind === "randomized-response") {
    const weights = responseWeights(epsilonOf(fields), fields.fanout);
    if (words[0] < weights.true) return child;
    const skipped = Number((words[0] - weights.true) / weights.other);
    return skipped < child ? skipped : skipped + 1;
  }
  if (fields.kind !== "discrete-laplace") throw new ServerViolation("simulation-only", "the task's noise is in floats, for simulation only");
  const { edge, sums } = laplaceNoise(epsilonOf(fields));
  return words.map((word, entry) => {
    const value = placeOf(sums, word) - edge;
    return entry === child ? 1 - value : value;
  });
}

/** Whether a participant can have given an answer. @param {Fields} fields @param {bigint | bigint[]} answer */
export function isPossible(fields, answer) {
  if (fields.kind === "randomized-response") return typeof answer === "bigint" && answer >= 0n && answer < BigInt(fields.fanout);
  if (fields.kind !== "discrete-laplace" || !Array.isArray(answer)) return false;
  const edge = BigInt(laplaceNoise(epsilonOf(fields)).edge);
  return answer.length === fields.fanout && answer.every((value) => value >= -edge && value <= edge + 1n);
}
