// One report in two shares (spec/sharing.md, sections 2 to 6). A block is 16 bytes; its lowest bit is bit 0 of byte 0.
// Knows the bytes of a report. Knows no servers; entropy is an argument.

import { check } from "#device/errors.js";
import { concat, littleEndian, utf8 } from "#device/bytes.js";
import { aes128 } from "#device/aes.js";
import { sha256 } from "#device/sha256.js";

/** @typedef {{levels: number, valueBits: number}} Shape */

const MASK = (1n << 64n) - 1n;

/** @param {Uint8Array} a @param {Uint8Array} b */
const xor = (a, b) => a.map((byte, i) => byte ^ b[i]);

/** @param {Uint8Array} block @param {number} bit */
const withBit = (block, bit) => block.map((byte, i) => (i === 0 ? (byte & 0xfe) | bit : byte));

/** @param {Uint8Array} block @param {number} place */
const wordOf = (block, place) => new DataView(block.buffer, block.byteOffset).getBigUint64(8 * place, true);

/** The hashes of one tree: `hash(name)(x)` is AES(k, x) xor x. @param {Uint8Array} task @param {"place" | "value"} tree */
export function treeHashes(task, tree) {
  /** @type {Map<string, (block: Uint8Array) => Uint8Array>} */
  const ciphers = new Map();
  return (/** @type {string} */ name) => (/** @type {Uint8Array} */ block) => {
    const cipher = ciphers.get(name) ?? aes128(sha256(concat(utf8("semilocal/1/sharing/"), task, utf8(`${tree}/${name}`))).slice(0, 16));
    ciphers.set(name, cipher);
    return xor(cipher(block), block);
  };
}

/**
 * The corrections of one tree along one path.
 * @param {Uint8Array} task @param {"place" | "value"} tree @param {number[]} path @param {bigint[]} payload @param {Uint8Array[]} seeds
 */
function corrections(task, tree, path, payload, seeds) {
  const hash = treeHashes(task, tree);
  const rightBits = new Uint8Array(Math.ceil(path.length / 8));
  const body = [];
  let states = seeds.map((seed, server) => withBit(seed, server));
  for (const [level, kept] of path.entries()) {
    const raw = states.map((state) => [hash("child-0")(state), hash("child-1")(state)]);
    const bits = [0, 1].map((side) => (raw[0][side][0] ^ raw[1][side][0] ^ (side === kept ? 1 : 0)) & 1);
    const seed = xor(raw[0][1 - kept], raw[1][1 - kept]);
    states = states.map((state, server) => (state[0] & 1 ? xor(raw[server][kept], withBit(seed, bits[kept])) : raw[server][kept]));
    rightBits[level >> 3] |= bits[1] << (level & 7);
    body.push(withBit(seed, bits[0]));
    const words = states.map(hash("payload"));
    payload.forEach((value, place) => {
      const difference = value - wordOf(words[0], place) + wordOf(words[1], place);
      body.push(littleEndian((states[0][0] & 1 ? difference : -difference) & MASK, 8));
    });
    for (const letter of ["a", "b"]) {
      const proof = hash(`proof-${kept}${letter}`);
      body.push(xor(proof(states[0]), proof(states[1])));
    }
  }
  return concat(rightBits, ...body);
}

/** Length of each private part. @param {Shape} shape */
export const privateBytes = ({ valueBits }) => (valueBits ? 32 : 16);

/**
 * The public part of a report, and one private part per server.
 * @param {Uint8Array} task its id @param {Shape} shape @param {number[]} path steps 0 or 1
 * @param {Uint8Array} entropy uniform bytes for both private parts, used for nothing else @param {number | null} [value]
 * @returns {{public: Uint8Array, private: [Uint8Array, Uint8Array]}}
 */
export function makeReport(task, shape, path, entropy, value = null) {
  const size = privateBytes(shape);
  check(shape.levels >= 1 && shape.levels <= 40 && shape.valueBits >= 0 && shape.valueBits <= 10, "a report has 1 to 40 levels and 0 to 10 bits of a value");
  check(path.length === shape.levels && path.every((step) => step === 0 || step === 1), `a path has ${shape.levels} steps, each 0 or 1`);
  check(entropy.length === 2 * size, `entropy has ${2 * size} bytes; got ${entropy.length}`);
  check((value === null) === (shape.valueBits === 0), "a value is given exactly if the task asks for one");
  const parts = [entropy.slice(0, size), entropy.slice(size)];
  const seeds = (/** @type {number} */ at) => parts.map((part) => part.slice(at, at + 16));
  const payload = value === null ? [1n] : [1n, BigInt(value)];
  const place = corrections(task, "place", path, payload, seeds(0));
  if (value === null) return { public: place, private: [parts[0], parts[1]] };
  check(Number.isInteger(value) && value >= 0 && value < 2 ** shape.valueBits, `the value is from 0 to ${2 ** shape.valueBits - 1}`);
  const bits = Array.from({ length: shape.valueBits }, (_, i) => (value >> (shape.valueBits - 1 - i)) & 1);
  return { public: concat(place, corrections(task, "value", bits, [1n], seeds(16))), private: [parts[0], parts[1]] };
}
