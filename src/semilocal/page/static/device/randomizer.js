// How the side that a participant is on becomes an answer (spec/protocol.md, section 8). Words decide by comparisons of
// integers only: e^x and quotients have more than 100 decimal digits, as integers of units of 2^-448. Knows sides and words.
// Knows no regions and no crowds.

import { exactUnits } from "#device/base.js";

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

/** The smallest integer that is not less. @param {bigint} x in units */
export const ceil = (x) => -(-x >> BITS);

/** Weights of the true side and of the other one, out of 2^64. @param {number} epsilon */
export function responseWeights(epsilon) {
  const other = ceil(over(WORD * ONE, exp(fixed(epsilon)) + ONE));
  return { true: WORD - other, other };
}

/** One answer. @param {number} epsilon @param {number} side 0 or 1 @param {bigint} word */
export const respond = (epsilon, side, word) => (word < responseWeights(epsilon).true ? side : 1 - side);
