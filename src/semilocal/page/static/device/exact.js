// e^x and quotients to more than 100 decimal digits, as integers of units of 2^-448. Knows arithmetic only.

import { exactUnits } from "#device/bytes.js";

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
