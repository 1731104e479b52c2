// A device's secret, and everything that is derived from it (spec/protocol.md, section 7). Knows secrets and labels.

import { hmac, sha256 } from "#vendor/noble-hashes.js";
import { bigEndian, check, concat, equal, fromBigEndian, utf8 } from "#device/base.js";

export const SECRET_BYTES = 32;

/** @param {Uint8Array} secret */
export function checkSecret(secret) {
  check(secret.length === SECRET_BYTES, `a secret has ${SECRET_BYTES} bytes; got ${secret.length}`);
}

/** @param {Uint8Array} secret @param {Uint8Array} label @param {number} length */
export function derive(secret, label, length) {
  const blocks = Array.from({ length: Math.ceil(length / 32) }, (_, i) => hmac(sha256, secret, concat(bigEndian(i, 4), label)));
  return concat(...blocks).slice(0, length);
}

/** The device's name in a task. @param {Uint8Array} secret @param {Uint8Array} task */
export const pseudonym = (secret, task) => derive(secret, concat(utf8("semilocal/1/pseudonym"), task), 16);

/** What proves that a request comes from the device that enrolled. @param {Uint8Array} secret @param {Uint8Array} task */
export const accessKey = (secret, task) => derive(secret, concat(utf8("semilocal/1/key"), task), 32);

/** @param {bigint[]} codes */
const packedCodes = (codes) => codes.map((code) => bigEndian(code, 8));

/**
 * The words of the one answer for this task, round, region and cuts.
 * @param {Uint8Array} secret @param {Uint8Array} task @param {number} round @param {[bigint, bigint]} region @param {bigint[]} cuts @param {number} count
 */
export function reportWords(secret, task, round, region, cuts, count) {
  return words(secret, concat(utf8("semilocal/2/report"), task, bigEndian(round, 4), ...packedCodes([...region, ...cuts])), count);
}

/** The device's part of the draw after a round. @param {Uint8Array} secret @param {Uint8Array} task @param {number} round */
export const nonceOf = (secret, task, round) => derive(secret, concat(utf8("semilocal/2/nonce"), task, bigEndian(round, 4)), 16);

/** Whether a preimage of the server's chain hashes to the value before it. @param {Uint8Array} preimage @param {Uint8Array} to */
export const leadsTo = (preimage, to) => equal(sha256(concat(utf8("semilocal/2/chain"), preimage)), to);

/**
 * The word of the one value for this plan, release and region.
 * @param {Uint8Array} secret @param {Uint8Array} task @param {Uint8Array} plan its digest
 * @param {number} index @param {[bigint, bigint]} region
 */
export function valueWord(secret, task, plan, index, region) {
  return words(secret, concat(utf8("semilocal/2/value"), task, plan, bigEndian(index, 4), ...packedCodes(region)), 1)[0];
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
