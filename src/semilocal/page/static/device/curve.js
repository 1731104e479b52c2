// Curve25519 in plain integers: X25519 (RFC 7748) and the check of Ed25519 signatures (RFC 8032). Browsers have both only
// since 2025. Integers of this size take a time that depends on their value: X25519 is used here with a key that is drawn
// for one envelope and forgotten, and checking a signature knows no secret. Knows bytes and numbers.

import { check } from "#device/errors.js";
import { concat, fromLittleEndian, littleEndian } from "#device/bytes.js";

/** @typedef {{x: bigint, y: bigint, z: bigint, t: bigint}} Point x/z, y/z and xy/z */

const P = 2n ** 255n - 19n;
const ORDER = 2n ** 252n + 27742317777372353535851937790883648493n;

/** @param {bigint} a */
const mod = (a, m = P) => ((a % m) + m) % m;

/** @param {bigint} base @param {bigint} exponent */
function power(base, exponent) {
  let [out, square] = [1n, mod(base)];
  for (let rest = exponent; rest > 0n; rest >>= 1n) {
    if (rest & 1n) out = mod(out * square);
    square = mod(square * square);
  }
  return out;
}

/** @param {bigint} a */
const inverse = (a) => power(a, P - 2n);

/** The shared secret of a scalar and a point, 32 bytes each. @param {Uint8Array} secret @param {Uint8Array} point */
export function x25519(secret, point) {
  check(secret.length === 32 && point.length === 32, "keys have 32 bytes");
  const clamped = secret.slice();
  clamped[0] &= 248;
  clamped[31] = (clamped[31] & 127) | 64;
  const scalar = fromLittleEndian(clamped);
  const u = mod(fromLittleEndian(point) & (2n ** 255n - 1n));
  let [x2, z2, x3, z3] = [1n, 0n, u, 1n];
  for (let t = 254n, swapped = 0n; t >= -1n; t--) {
    const bit = t >= 0n ? (scalar >> t) & 1n : 0n;
    if (swapped !== bit) [x2, z2, x3, z3] = [x3, z3, x2, z2];
    swapped = bit;
    if (t < 0n) break;
    const [a, b, c, d] = [x2 + z2, x2 - z2, x3 + z3, x3 - z3];
    const [aa, bb, da, cb] = [mod(a * a), mod(b * b), mod(d * a), mod(c * b)];
    const e = aa - bb;
    [x3, z3, x2, z2] = [mod((da + cb) ** 2n), mod(u * (da - cb) ** 2n), mod(aa * bb), mod(e * (aa + 121665n * e))];
  }
  return littleEndian(mod(x2 * inverse(z2)), 32);
}

/** The public key of an X25519 secret. @param {Uint8Array} secret */
export const x25519Public = (secret) => x25519(secret, Uint8Array.of(9, ...new Uint8Array(31)));

const D = mod(-121665n * inverse(121666n));
const ROOT = power(2n, (P - 1n) / 4n); // a square root of -1

/** @param {Point} a @param {Point} b @returns {Point} */
function add(a, b) {
  const [first, second] = [mod((a.y - a.x) * (b.y - b.x)), mod((a.y + a.x) * (b.y + b.x))];
  const [third, fourth] = [mod(2n * a.t * b.t * D), mod(2n * a.z * b.z)];
  const [e, f, g, h] = [second - first, fourth - third, fourth + third, second + first];
  return { x: mod(e * f), y: mod(g * h), z: mod(f * g), t: mod(e * h) };
}

/** @param {bigint} scalar @param {Point} point */
function multiply(scalar, point) {
  let out = { x: 0n, y: 1n, z: 1n, t: 0n };
  for (let rest = scalar; rest > 0n; rest >>= 1n, point = add(point, point)) if (rest & 1n) out = add(out, point);
  return out;
}

/** The point that 32 bytes stand for; null if they stand for none. @param {Uint8Array} data @returns {Point | null} */
function readPoint(data) {
  const number = fromLittleEndian(data);
  const y = number & (2n ** 255n - 1n);
  const odd = number >> 255n;
  if (y >= P) return null;
  const square = mod((y * y - 1n) * inverse(D * y * y + 1n));
  let x = power(square, (P + 3n) / 8n);
  if (mod(x * x - square) !== 0n) x = mod(x * ROOT);
  if (mod(x * x - square) !== 0n || (x === 0n && odd)) return null;
  if ((x & 1n) !== odd) x = P - x;
  return { x, y, z: 1n, t: mod(x * y) };
}

/** @param {Point} point */
function writePoint({ x, y, z }) {
  const over = inverse(z);
  return littleEndian(mod(y * over) | ((mod(x * over) & 1n) << 255n), 32);
}

const BASE = readPoint(concat(Uint8Array.of(0x58), new Uint8Array(31).fill(0x66)));

/** Whether a message was signed with the secret of this key. @param {Uint8Array} signature @param {Uint8Array} key @param {Uint8Array} message */
export async function isSigned(signature, key, message) {
  if (signature.length !== 64 || key.length !== 32) return false;
  const scalar = fromLittleEndian(signature.slice(32));
  const point = readPoint(key);
  if (point === null || BASE === null || scalar >= ORDER) return false;
  const commitment = signature.slice(0, 32);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-512", concat(commitment, key, message)));
  const challenge = mod(fromLittleEndian(digest), ORDER);
  const minus = { ...point, x: P - point.x, t: P - point.t };
  const found = writePoint(add(multiply(scalar, BASE), multiply(challenge, minus)));
  return found.every((byte, i) => byte === commitment[i]);
}
