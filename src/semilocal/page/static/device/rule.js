// The crowd test (spec/protocol.md, section 10): whether a published threshold is large enough. Where is cut and when is
// the server's; a device needs nothing of that. Knows numbers. Knows no participants and no positions.

/** @import { Task } from "#device/task.js" */
import { WORD, responseWeights } from "#device/randomizer.js";

const TOLERANCE = 1 + 1e-6; // by which two correct programs may differ in a tail
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

/** P(Bin(a, p) + Bin(b, q) >= count) where p + q = 1. @param {number} a @param {number} b @param {number} p @param {number} q @param {number} count */
function twoBinomials(a, b, p, q, count) {
  const [ours, others] = [binomial(a, p, q), binomial(b, q, p)];
  const tails = new Float64Array(others.masses.length + 1);
  for (let i = others.masses.length - 1; i >= 0; i--) tails[i] = tails[i + 1] + others.masses[i];
  return ours.masses.reduce((sum, mass, i) => sum + mass * tails[Math.min(Math.max(count - ours.first - i - others.first, 0), tails.length - 1)], 0);
}

/** P(at least count answers name a side) when k - 1 of the askable are on it. @param {number} askable @param {number} asked @param {number} k @param {number} epsilon @param {number} count */
export function tail(askable, asked, k, epsilon, count) {
  const weights = responseWeights(epsilon);
  const [p, q] = [chance(weights.true), chance(weights.other)];
  const drawn = hypergeometric(askable, Math.min(k - 1, askable), asked);
  return drawn.masses.reduce((sum, mass, i) => sum + mass * twoBinomials(drawn.first + i, asked - drawn.first - i, p, q, count), 0);
}

/**
 * Whether a published threshold is large enough.
 * @param {Task} task @param {{askable: number, asked: number, failed: number, threshold: number}} question F, m, w, and what is published
 */
export function thresholdHolds({ k, delta, tolerate_liars: liars, randomizer }, { askable, asked, failed, threshold }) {
  const honest = Math.max(threshold - liars, 0); // a liar adds at most one, whatever it says
  return tail(askable, asked, k, randomizer.epsilon, honest) <= (TOLERANCE * delta) / ((failed + 1) * (failed + 2));
}
