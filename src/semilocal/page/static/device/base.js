// What the other modules of a device stand on: refusals, byte strings, and the bits of doubles. Knows words, bytes and
// numbers. Knows no messages.

/** Input that is not what it must be: bytes that are not a message, a position outside the domain, a limit that is not a number. */
export class InvalidInput extends Error {
  name = "InvalidInput";
}

/** The server broke the protocol, or asks for what the owner forbids. The token is for programs, the reason for people. */
export class ServerViolation extends Error {
  name = "ServerViolation";

  /** @param {string} token @param {string} reason */
  constructor(token, reason) {
    super(`${reason} [${token}]`);
    this.token = token;
    this.reason = reason;
  }
}

/** The owner's caps on all tasks together do not allow this one. */
export class BudgetExceeded extends Error {
  name = "BudgetExceeded";
}

/** The server gave no usable answer for longer than the owner's patience. */
export class Unreachable extends Error {
  name = "Unreachable";
}

/**
 * @param {unknown} good
 * @param {string} words what must be true
 * @returns {asserts good}
 */
export function check(good, words) {
  if (!good) throw new InvalidInput(words);
}

/** Refuse what only the package's device takes part in. @param {unknown} good @param {string} what */
export const mustBeHere = (good, what) => check(good, `a browser does not take part in ${what}: use the Python client, semilocal join`);

const encoder = new TextEncoder();

/** @param {string} text */
export const utf8 = (text) => encoder.encode(text);

/** @param {...Uint8Array} parts */
export function concat(...parts) {
  const out = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

/** @param {Uint8Array} data */
export const hex = (data) => Array.from(data, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** @param {Uint8Array} a @param {Uint8Array} b */
export const equal = (a, b) => a.length === b.length && a.every((byte, i) => byte === b[i]);

/** Below, at or above 0: which of two byte strings of one length comes first. @param {Uint8Array} a @param {Uint8Array} b */
export const order = (a, b) => {
  const at = a.findIndex((byte, i) => byte !== b[i]);
  return at < 0 ? 0 : a[at] - b[at];
};

/** The bytes of a non-negative integer, most significant first. @param {bigint | number} value @param {number} size */
export function bigEndian(value, size) {
  const out = new Uint8Array(size);
  let rest = BigInt(value);
  for (let i = size - 1; i >= 0; i--, rest >>= 8n) out[i] = Number(rest & 255n);
  check(rest === 0n, `${value} does not fit into ${size} bytes`);
  return out;
}

/** @param {bigint} value @param {number} size */
export const littleEndian = (value, size) => bigEndian(value, size).reverse();

/** @param {Uint8Array} data most significant byte first */
export const fromBigEndian = (data) => (data.length ? BigInt(`0x${hex(data)}`) : 0n);

const view = new DataView(new ArrayBuffer(8));

/** The double that comes next in a direction. @param {number} x finite @param {1 | -1} direction */
function nextDouble(x, direction) {
  if (x === 0) return direction * Number.MIN_VALUE;
  view.setFloat64(0, x);
  const away = x > 0 === direction > 0;
  view.setBigInt64(0, view.getBigInt64(0) + (away ? 1n : -1n));
  return view.getFloat64(0);
}

/** The distance from |x| to the next larger double. @param {number} x */
export const spacing = (x) => nextDouble(Math.abs(x), 1) - Math.abs(x);

/** A double as the exact integer of units of 2^-1074. @param {number} x */
export function exactUnits(x) {
  check(Number.isFinite(x), `a finite number is needed; got ${x}`);
  view.setFloat64(0, Math.abs(x));
  const bits = view.getBigUint64(0);
  const exponent = bits >> 52n;
  const fraction = bits & ((1n << 52n) - 1n);
  const size = exponent === 0n ? fraction : (fraction | (1n << 52n)) << (exponent - 1n);
  return x < 0 ? -size : size;
}

/** The nearest double of a number of units of 2^-1074, for people to read. @param {bigint} units */
export function unitsToNumber(units) {
  const size = units < 0n ? -units : units;
  const shift = Math.max(size.toString(2).length - 64, 0);
  const half = Math.trunc((shift - 1074) / 2); // in two steps: 2^-1074 times a large number would vanish before it counts
  const number = Number(size >> BigInt(shift)) * 2 ** half * 2 ** (shift - 1074 - half);
  return units < 0n ? -number : number;
}
