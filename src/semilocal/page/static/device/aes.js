// AES-128 encryption of single blocks (FIPS 197). Its tables are indexed by the data: use it with public keys, or where
// nobody can time it. Knows bytes only.

import { check } from "#device/errors.js";

/** Twice a number in GF(2^8). @param {number} a */
const double = (a) => ((a << 1) ^ (a & 0x80 ? 0x11b : 0)) & 0xff;

const SUBSTITUTE = new Uint8Array(256);
for (let i = 0, power = 1, inverse = 1; i < 255; i++) {
  let turned = inverse;
  for (let shift = 1; shift < 5; shift++) turned ^= ((inverse << shift) | (inverse >> (8 - shift))) & 0xff;
  SUBSTITUTE[power] = turned ^ 0x63;
  power ^= double(power); // times 3, which generates all but 0
  inverse = dividedByThree(inverse);
}
SUBSTITUTE[0] = 0x63;

/** @param {number} a */
function dividedByThree(a) {
  let out = a ^ (a << 1); // times 0xf6, the inverse of 3
  out ^= out << 2;
  out ^= out << 4;
  out &= 0xff;
  return out & 0x80 ? out ^ 0x09 : out;
}

/** Encryption under one key of 16 bytes. @param {Uint8Array} key @returns {(block: Uint8Array) => Uint8Array} */
export function aes128(key) {
  check(key.length === 16, `a key has 16 bytes; got ${key.length}`);
  const words = new Uint8Array(176);
  words.set(key);
  for (let i = 16, constant = 1; i < 176; i += 4) {
    let word = Array.from(words.subarray(i - 4, i));
    if (i % 16 === 0) {
      word = [...word.slice(1), word[0]].map((byte) => SUBSTITUTE[byte]);
      word[0] ^= constant;
      constant = double(constant);
    }
    word.forEach((byte, j) => (words[i + j] = words[i + j - 16] ^ byte));
  }
  return (block) => {
    let state = block.map((byte, i) => byte ^ words[i]);
    for (let round = 1; round <= 10; round++) {
      const moved = state.map((_, i) => SUBSTITUTE[state[(i + 4 * (i % 4)) % 16]]);
      state = moved.map((byte, i) => {
        if (round === 10) return byte ^ words[160 + i];
        const at = (/** @type {number} */ row) => moved[(i & 12) | ((i + row) & 3)];
        return double(byte) ^ double(at(1)) ^ at(1) ^ at(2) ^ at(3) ^ words[16 * round + i];
      });
    }
    return state;
  };
}
