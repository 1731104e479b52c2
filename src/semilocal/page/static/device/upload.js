// The one upload to two servers, and its receipt (spec/sharing.md, section 9). Experimental: nobody independent has
// reviewed this mode yet. Knows bytes and keys. Knows no requests and no storage.

import { check } from "#device/errors.js";
import { bigEndian, concat, equal, utf8 } from "#device/bytes.js";
import { isSigned } from "#device/curve.js";
import { seal } from "#device/envelope.js";
import { bytes, long, tagged, text } from "#device/fields.js";
import { pseudonym, roundingWord, uploadEntropy } from "#device/keys.js";
import { pack, unpack } from "#device/msgpack.js";
import { ownOfPair } from "#device/pair.js";
import { makeReport, privateBytes } from "#device/sharing.js";
import { sha256 } from "#device/sha256.js";
import { checkOwn, functionRange, functionValue, misfit } from "#device/values.js";

/** @typedef {import("#device/pair.js").PairTask} PairTask */
/** @typedef {ReturnType<typeof readReceiptFields>} Receipt */

const readReceiptFields = tagged("receipt", { task: bytes(32), id: bytes(16), digest: bytes(32), time: long(0n, 2n ** 40n - 1n), signature: bytes(64) });
const readUploadFields = tagged("upload", {
  id: bytes(16), public: bytes(), leader: bytes(), helper: bytes(), token: (value) => (value === null ? null : text(value)), bucket: long(1n, 2n ** 62n - 1n),
});

/** The integer that stands for a value, rounded by a word so that the expectation is kept. @param {import("#device/pair.js").AskedValue} asked @param {number} value @param {bigint} word */
export function encodeValue({ low, high, bits }, value, word) {
  const scaled = Math.min(Math.max((value - low) / (high - low), 0), 1) * (2 ** bits - 1);
  const floor = Math.floor(scaled);
  return floor + (Number(word >> 11n) * 2 ** -53 < scaled - floor ? 1 : 0);
}

/** The value as it is sent; null if the pair asks for none. @param {PairTask} pair @param {number[]} position @param {Uint8Array} secret @param {number | null} own */
function sentValue(pair, position, secret, own) {
  const { asked } = pair;
  checkOwn(ownOfPair(pair), own);
  if (asked === null) return null;
  const word = roundingWord(secret, pair.id);
  if (own !== null) return encodeValue(asked, own, word);
  const { function: f, parameters } = asked;
  const words = misfit(asked, pair.tree.box);
  check(!words, words);
  const [least, most] = functionRange(f, parameters, pair.tree.box);
  check(asked.low <= least && most <= asked.high, `${f} leaves the stated range ${asked.low} to ${asked.high} over the domain`);
  return encodeValue(asked, functionValue(f, parameters, position), word);
}

/**
 * Bucket and path of a position, its report, and its id. Where no place is sent, the position does not enter.
 * @param {PairTask} pair @param {number[]} position @param {Uint8Array} secret @param {number | null} own the owner's value, if one is asked for
 */
export function shareOf(pair, position, secret, own) {
  const code = pair.maps ? pair.tree.codeOf(position) : 0n;
  const value = sentValue(pair, position, secret, own);
  const shape = { levels: pair.levels, valueBits: pair.asked?.bits ?? 0 };
  const path = Array.from({ length: pair.levels }, (_, i) => Number((code >> BigInt(pair.levels - 1 - i)) & 1n));
  const report = makeReport(pair.id, shape, path, uploadEntropy(secret, pair.id, code, 2 * privateBytes(shape), value), value);
  return { id: pseudonym(secret, pair.id), bucket: pair.maps ? code >> BigInt(pair.levels) : 1n, report };
}

/**
 * The bytes of the one upload. Envelopes differ every time: store them before they are sent.
 * @param {PairTask} pair @param {number[]} position @param {Uint8Array} secret @param {string} token empty where enrolment is open
 * @param {number | null} [own] the owner's value, if one is asked for
 */
export async function makeUpload(pair, position, secret, token, own = null) {
  const { id, bucket, report } = shareOf(pair, position, secret, own);
  const about = { task: pair.id, report: id, public: report.public };
  const leader = await seal(report.private[0], pair.leader.sealing_key, { ...about, role: "leader" });
  const helper = await seal(report.private[1], pair.helper.sealing_key, { ...about, role: "helper" });
  return packUpload({ id, public: report.public, leader, helper, token: token || null, bucket });
}

/** @param {Uint8Array} data */
export const readUpload = (data) => readUploadFields(unpack(data));

/** @param {Omit<ReturnType<typeof readUpload>, "type">} upload */
export const packUpload = ({ id, public: open, leader, helper, token, bucket }) => pack(["upload", id, open, leader, helper, token, bucket]);

/** @param {Uint8Array} data @returns {Receipt} */
export function readReceipt(data) {
  const receipt = readReceiptFields(unpack(data));
  check(receipt.time % 3600n === 0n, "the time of a receipt is a whole hour");
  return receipt;
}

/** Whether a receipt is for this upload and signed by the leader. @param {Receipt} receipt @param {PairTask} pair @param {Uint8Array} upload */
export async function isGoodReceipt(receipt, pair, upload) {
  const parts = [receipt.task, receipt.id, receipt.digest, bigEndian(receipt.time, 8)];
  const signed = concat(utf8("semilocal/1/sharing/receipt/"), ...parts.flatMap((part) => [bigEndian(part.length, 8), part]));
  const ours = equal(receipt.task, pair.id) && equal(receipt.id, readUpload(upload).id) && equal(receipt.digest, sha256(upload));
  return ours && isSigned(receipt.signature, pair.leader.signing_key, signed);
}
