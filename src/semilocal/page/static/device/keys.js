// Everything a device derives from its secret (spec/protocol.md, sections 7 and 15.7). Knows secrets and labels.

import { bigEndian, concat, fromBigEndian, utf8 } from "#device/bytes.js";
import { hmac } from "#device/sha256.js";

/** @param {Uint8Array} secret @param {Uint8Array} label @param {number} length */
export function derive(secret, label, length) {
  const blocks = Array.from({ length: Math.ceil(length / 32) }, (_, i) => hmac(secret, bigEndian(i, 4), label));
  return concat(...blocks).slice(0, length);
}

/** The device's name in a task. @param {Uint8Array} secret @param {Uint8Array} task */
export const pseudonym = (secret, task) => derive(secret, concat(utf8("semilocal/1/pseudonym"), task), 16);

/** What proves that a request comes from the device that enrolled. @param {Uint8Array} secret @param {Uint8Array} task */
export const accessKey = (secret, task) => derive(secret, concat(utf8("semilocal/1/key"), task), 32);

/**
 * The words of the one report for this task, round and cell.
 * @param {Uint8Array} secret @param {Uint8Array} task @param {number} round @param {bigint} cell @param {number} count
 */
export function reportWords(secret, task, round, cell, count) {
  return words(secret, concat(utf8("semilocal/1/report"), task, bigEndian(round, 4), bigEndian(cell, 8)), count);
}

/**
 * The word of the move out of a cell that was trimmed in this round.
 * @param {Uint8Array} secret @param {Uint8Array} task @param {number} round @param {bigint} cell
 */
export function moveWord(secret, task, round, cell) {
  return words(secret, concat(utf8("semilocal/1/move"), task, bigEndian(round, 4), bigEndian(cell, 8)), 1)[0];
}

/**
 * The words of the one value for this plan, release and region.
 * @param {Uint8Array} secret @param {Uint8Array} task @param {Uint8Array} plan its digest
 * @param {number} index @param {bigint} region @param {number} count
 */
export function valueWords(secret, task, plan, index, region, count) {
  return words(secret, concat(utf8("semilocal/1/value"), task, plan, bigEndian(index, 4), bigEndian(region, 8)), count);
}

/**
 * The entropy of the one upload for this task of two servers, this deepest cell and this value.
 * @param {Uint8Array} secret @param {Uint8Array} task @param {bigint} code @param {number} length @param {number | null} [value]
 */
export function uploadEntropy(secret, task, code, length, value = null) {
  const more = value === null ? [] : [bigEndian(value, 8)];
  return derive(secret, concat(utf8("semilocal/1/upload"), task, bigEndian(code, 8), ...more), length);
}

/** The word that says which way a value is rounded for this task of two servers. @param {Uint8Array} secret @param {Uint8Array} task */
export const roundingWord = (secret, task) => words(secret, concat(utf8("semilocal/1/rounding"), task), 1)[0];

/** @param {Uint8Array} secret @param {Uint8Array} label @param {number} count @returns {bigint[]} */
function words(secret, label, count) {
  const data = derive(secret, label, 8 * count);
  return Array.from({ length: count }, (_, i) => fromBigEndian(data.subarray(8 * i, 8 * i + 8)));
}
