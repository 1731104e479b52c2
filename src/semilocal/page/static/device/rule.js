// The crowd test (spec/protocol.md, section 10): whether a published threshold is large enough. Where is cut and when is
// the server's; a device needs nothing of that. Knows numbers. Knows no participants and no positions.

/** @import { Noise as Randomizer, Task } from "#device/task.js" */
import { WORD, forWidth, laplaceNoise, responseWeights } from "#device/randomizer.js";
import { epsilonOf } from "#device/task.js";

const TOLERANCE = 1 + 1e-6; // by which two correct programs may differ in a tail
const GUARD = 1 - 1e-6; // of rule "all"
const SMALLEST = 1e-60; // of the largest mass; what lies beyond is far below any delta

/** @param {bigint} weight out of 2^64 */
const chance = (weight) => Number(weight) / Number(WORD);

/**
 * A law from the ratios of neighbours, outward from its mode, without what is negligible.
 * @param {number} least @param {number} most @param {number} mode @param {(y: number) => number} ratio mass of y + 1 over that of y
 */
function law(least, most, mode, ratio) {
  const [below, above] = [/** @type {number[]} */ ([]), [1]];
  for (let y = mode, mass = 1; y < most; y++) {
    mass *= ratio(y);
    if (mass < SMALLEST) break;
    above.push(mass);
  }
  for (let y = mode, mass = 1; y > least; y--) {
    mass /= ratio(y - 1);
    if (mass < SMALLEST) break;
    below.push(mass);
  }
  const masses = [...below.reverse(), ...above];
  const total = masses.reduce((sum, mass) => sum + mass, 0);
  return { first: mode - below.length, masses: masses.map((mass) => mass / total) };
}

/** @param {number} size @param {number} p @param {number} rest 1 - p, without the rounding of the subtraction */
function binomial(size, p, rest) {
  return law(0, size, Math.min(size, Math.floor((size + 1) * p)), (y) => ((size - y) / (y + 1)) * (p / rest));
}

/** How many of the drawn are among some of the askable. @param {number} askable @param {number} some @param {number} drawn */
function hypergeometric(askable, some, drawn) {
  const [least, most] = [Math.max(0, drawn + some - askable), Math.min(some, drawn)];
  const mode = Math.min(Math.max(Math.floor(((drawn + 1) * (some + 1)) / (askable + 2)), least), most);
  return law(least, most, mode, (h) => ((some - h) * (drawn - h)) / ((h + 1) * (askable - some - drawn + h + 1)));
}

/** P(Bin(a, p) + Bin(b, q) >= count). @param {number} a @param {number} b @param {number} p @param {number} q @param {number} notP @param {number} notQ @param {number} count */
function twoBinomials(a, b, p, q, notP, notQ, count) {
  const [ours, others] = [binomial(a, p, notP), binomial(b, q, notQ)];
  const tails = new Float64Array(others.masses.length + 1);
  for (let i = others.masses.length - 1; i >= 0; i--) tails[i] = tails[i + 1] + others.masses[i];
  return ours.masses.reduce((sum, mass, i) => sum + mass * tails[Math.min(Math.max(count - ours.first - i - others.first, 0), tails.length - 1)], 0);
}

/** P(at least count answers name a side) when k - 1 of the askable are on it. @param {number} askable @param {number} asked @param {number} k @param {number} epsilon @param {number} count */
export function tail(askable, asked, k, epsilon, count) {
  const weights = responseWeights(epsilon, 2);
  const [p, q] = [chance(weights.true), chance(weights.other)];
  const drawn = hypergeometric(askable, Math.min(k - 1, askable), asked);
  return drawn.masses.reduce((sum, mass, i) => sum + mass * twoBinomials(drawn.first + i, asked - drawn.first - i, p, q, q, p, count), 0);
}

/** ln of the larger of the two moment functions of the noise at x. @param {number} epsilon @param {number} x */
function logMoment(epsilon, x) {
  const { edge, weights } = laplaceNoise(epsilon);
  const excess = [1, -1].map((sign) => {
    let [sum, lost] = [0, 0]; // compensated: the terms nearly cancel
    weights.forEach((weight, i) => {
      const term = chance(weight) * Math.expm1(sign * x * (i - edge));
      const next = sum + term;
      lost += Math.abs(sum) >= Math.abs(term) ? sum - next + term : term - next + sum;
      sum = next;
    });
    return sum + lost;
  });
  return Math.log1p(Math.max(...excess));
}

const GRID = [
  ...Array.from({ length: 1000 }, (_, i) => 1e-5 * (0.9 / 1e-5) ** (i / 999)),
  ...Array.from({ length: 200 }, (_, i) => 1 - 1e-6 * (0.1 / 1e-6) ** (i / 199)),
].sort((a, b) => a - b);

/** Chernoff's margin; it falls and then grows along the grid. @param {number} epsilon @param {number} n @param {number} delta */
function margin(epsilon, n, delta) {
  const at = (/** @type {number} */ place) => {
    const x = (epsilon / 2) * GRID[place];
    return (n * logMoment(epsilon, x) + Math.log(1 / delta)) / x;
  };
  let [low, high] = [0, GRID.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (at(middle) <= at(middle + 1)) high = middle;
    else low = middle + 1;
  }
  return at(low);
}

/** Rule "all": whether a part with so many answers surely has k of the n asked. @param {Randomizer} randomizer of the parts @param {number} n @param {number} k @param {number} delta @param {number} count */
export function passes(randomizer, n, k, delta, count) {
  const epsilon = epsilonOf(randomizer);
  if (randomizer.kind !== "randomized-response") return n >= k && count >= Math.ceil(k - 1 + margin(epsilon, n, delta));
  if (count > n || n < k) return count > n;
  const { true: own, other } = responseWeights(epsilon, randomizer.fanout);
  const found = twoBinomials(k - 1, n - k + 1, chance(own), chance(other), chance(WORD - own), chance(WORD - other), count);
  return found * (1 + 1e-9) + 1e-45 <= delta * GUARD;
}

/**
 * Whether a published threshold is large enough.
 * @param {Task} task @param {{askable: number, asked: number, failed: number, parts: number, threshold: number}} question F, m, w, and what is published
 */
export function thresholdHolds(task, { askable, asked, failed, parts, threshold }) {
  const { k, delta, tolerate_liars: liars } = task;
  const honest = Math.max(threshold - liars, 0); // a liar adds at most one, whatever it says
  if (task.rule === "all") return failed === 0 && asked === askable && threshold >= 1 && passes(forWidth(task.randomizer, parts), Math.max(asked - liars, 0), k, delta, honest);
  return parts === 2 && tail(askable, asked, k, epsilonOf(task.randomizer), honest) <= (TOLERANCE * delta) / ((failed + 1) * (failed + 2));
}
