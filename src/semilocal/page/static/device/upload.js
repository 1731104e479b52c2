// One report in two shares, the one upload to two servers, and its receipt (spec/sharing.md, sections 2 to 9). It is
// checked against the owner's policy, sealed, stored with its loss, then sent until it is acknowledged with the same
// bytes. Whether and when something is sent never depends on the position. Experimental: nobody independent has reviewed
// this mode yet. A block is 16 bytes; its lowest bit is bit 0 of byte 0. Knows the order of things. Knows no storage.

/** @import { Channel } from "#device/channel.js" */
/** @import { PairTask } from "#device/pair.js" */
/** @import { PairUpload } from "#device/vault.js" */
import { ecb } from "#vendor/noble-ciphers.js";
import { sha256 } from "#vendor/noble-hashes.js";
import { bigEndian, check, concat, equal, exactUnits, hex, InvalidInput, littleEndian, ServerViolation, utf8 } from "#device/base.js";
import { MSGPACK, readJson } from "#device/channel.js";
import { isSigned, seal } from "#device/crypto.js";
import { pseudonym, roundingWord, uploadEntropy } from "#device/keys.js";
import { checkPair, otherOrigin, ownOfPair, readPairTask } from "#device/pair.js";
import { checkOwn, functionRange, functionValue, misfit } from "#device/values.js";
import { Member, summarise } from "#device/summary.js";
import { pinned } from "#device/task.js";
import { reserve, settle, spend } from "#device/vault.js";
import { bytes, long, pack, tagged, text, unpack } from "#device/wire.js";

/** @typedef {{levels: number, valueBits: number}} Shape */

const MASK = (1n << 64n) - 1n;

/** @param {Uint8Array} a @param {Uint8Array} b */
const xor = (a, b) => a.map((byte, i) => byte ^ b[i]);

/** @param {Uint8Array} block @param {number} bit */
const withBit = (block, bit) => block.map((byte, i) => (i === 0 ? (byte & 0xfe) | bit : byte));

/** @param {Uint8Array} block @param {number} place */
const wordOf = (block, place) => new DataView(block.buffer, block.byteOffset).getBigUint64(8 * place, true);

const LABEL = "semilocal/2/sharing/";

/** The state of the root of a tree on a server: its seed, bound to the task and the report. @param {Uint8Array} task @param {"place" | "value"} tree @param {Uint8Array} nonce @param {Uint8Array} seed @param {number} server */
export const rootState = (task, tree, nonce, seed, server) =>
  withBit(sha256(concat(utf8(LABEL), task, utf8(`${tree}/root`), nonce, seed)).slice(0, 16), server);

/** The hashes of one tree: `hash(name)(x)` is AES(k, x) xor x. @param {Uint8Array} task @param {"place" | "value"} tree */
export function treeHashes(task, tree) {
  return (/** @type {string} */ name) => {
    const key = sha256(concat(utf8(LABEL), task, utf8(`${tree}/${name}`))).slice(0, 16);
    return (/** @type {Uint8Array} */ block) => xor(ecb(key, { disablePadding: true }).encrypt(block), block);
  };
}

/**
 * The corrections of one tree along one path.
 * @param {Uint8Array} task @param {"place" | "value"} tree @param {Uint8Array} nonce @param {number[]} path @param {bigint[]} payload @param {Uint8Array[]} seeds
 */
function corrections(task, tree, nonce, path, payload, seeds) {
  const hash = treeHashes(task, tree);
  const rightBits = new Uint8Array(Math.ceil(path.length / 8));
  const body = [];
  let states = seeds.map((seed, server) => rootState(task, tree, nonce, seed, server));
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
 * @param {Uint8Array} task its id @param {Uint8Array} nonce the report's id @param {Shape} shape @param {number[]} path steps 0 or 1
 * @param {Uint8Array} entropy uniform bytes for both private parts, used for nothing else @param {number | null} [value]
 * @returns {{public: Uint8Array, private: [Uint8Array, Uint8Array]}}
 */
export function shard(task, nonce, shape, path, entropy, value = null) {
  const size = privateBytes(shape);
  check(shape.levels >= 1 && shape.levels <= 40 && shape.valueBits >= 0 && shape.valueBits <= 10, "a report has 1 to 40 levels and 0 to 10 bits of a value");
  check(path.length === shape.levels && path.every((step) => step === 0 || step === 1), `a path has ${shape.levels} steps, each 0 or 1`);
  check(entropy.length === 2 * size, `entropy has ${2 * size} bytes; got ${entropy.length}`);
  check((value === null) === (shape.valueBits === 0), "a value is given exactly if the task asks for one");
  const parts = [entropy.slice(0, size), entropy.slice(size)];
  const seeds = (/** @type {number} */ at) => parts.map((part) => part.slice(at, at + 16));
  const payload = value === null ? [1n] : [1n, BigInt(value)];
  const place = corrections(task, "place", nonce, path, payload, seeds(0));
  if (value === null) return { public: place, private: [parts[0], parts[1]] };
  check(Number.isInteger(value) && value >= 0 && value < 2 ** shape.valueBits, `the value is from 0 to ${2 ** shape.valueBits - 1}`);
  const bits = Array.from({ length: shape.valueBits }, (_, i) => (value >> (shape.valueBits - 1 - i)) & 1);
  return { public: concat(place, corrections(task, "value", nonce, bits, [1n], seeds(16))), private: [parts[0], parts[1]] };
}

/** @typedef {ReturnType<typeof readReceiptFields>} Receipt */

const readReceiptFields = tagged("receipt", { task: bytes(32), id: bytes(16), digest: bytes(32), time: long(0n, 2n ** 40n - 1n), signature: bytes(64) });
const readUploadFields = tagged("upload-2", {
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
  const id = pseudonym(secret, pair.id);
  const report = shard(pair.id, id, shape, path, uploadEntropy(secret, pair.id, code, 2 * privateBytes(shape), value), value);
  return { id, bucket: pair.maps ? code >> BigInt(pair.levels) : 1n, report };
}

/**
 * The bytes of the one upload. Envelopes differ every time: store them before they are sent.
 * @param {PairTask} pair @param {number[]} position @param {Uint8Array} secret @param {string} token empty where enrolment is open
 * @param {number | null} [own] the owner's value, if one is asked for
 */
export async function makeUpload(pair, position, secret, token, own = null) {
  const { id, bucket, report } = shareOf(pair, position, secret, own);
  const about = { task: pair.id, report: id, public: report.public, bucket, token };
  const leader = await seal(report.private[0], pair.leader.sealing_key, { ...about, role: "leader" });
  const helper = await seal(report.private[1], pair.helper.sealing_key, { ...about, role: "helper" });
  return pack(["upload-2", id, report.public, leader, helper, token || null, bucket]);
}

/** @param {Uint8Array} data */
export const readUpload = (data) => readUploadFields(unpack(data));

/** @param {Uint8Array} data @returns {Receipt} */
export function readReceipt(data) {
  const receipt = readReceiptFields(unpack(data));
  check(receipt.time % 3600n === 0n, "the time of a receipt is a whole hour");
  return receipt;
}

/** Whether a receipt is for this upload and signed by the leader. @param {Receipt} receipt @param {PairTask} pair @param {Uint8Array} upload */
export function isGoodReceipt(receipt, pair, upload) {
  const parts = [receipt.task, receipt.id, receipt.digest, bigEndian(receipt.time, 8)];
  const signed = concat(utf8("semilocal/1/sharing/receipt/"), ...parts.flatMap((part) => [bigEndian(part.length, 8), part]));
  const ours = equal(receipt.task, pair.id) && equal(receipt.id, readUpload(upload).id) && equal(receipt.digest, sha256(upload));
  return ours && isSigned(receipt.signature, pair.leader.signing_key, signed);
}

const NOTHING = new Uint8Array(0);
const ADVICE = /** @type {Record<string, string>} */ ({
  "bad-token": "the leader does not know this token; ask the campaign's administrator for one and join again",
  "token-used": "the token was used for another upload; ask the campaign's administrator for a new one and join again",
});

/** The pair as both operators show it, each at its own origin. @param {string} name @param {string} server where it was found @param {(origin: string) => Channel} connect */
async function fetchBoth(name, server, connect) {
  const fetched = async (/** @type {string} */ origin) => {
    const pair = await connect(origin).message(`/tasks/${name}`, (data) => readPairTask(pinned(data, name)));
    if (pair === null) throw new ServerViolation("malformed", "the task must exist from the start");
    return pair;
  };
  const pair = await fetched(server);
  await fetched(otherOrigin(pair, server)); // its id is the hash of the same bytes
  return pair;
}

export class Uploader extends Member {
  /**
   * @param {(origin: string) => Channel} connect @param {string} server @param {string} name the task's id
   * @param {import("#device/vault.js").Vault} vault @param {number[]} position @param {import("#device/task.js").Policy} policy @param {import("#device/agent.js").Options} [options]
   */
  constructor(connect, server, name, vault, position, policy, options = {}) {
    super(name, vault, position, policy, options);
    this.connect = connect;
    this.server = server;
  }

  /** Upload, and keep the receipt. Running it again is safe at any moment; a second time nothing is sent. */
  async run() {
    try {
      const pair = this.entry ? readPairTask(this.entry.task) : await this.prepare();
      if (!this.entry.receipt.length) {
        await this.resume(pair);
        await this.send(pair);
      }
    } catch (error) {
      if (!(error instanceof ServerViolation)) throw error;
      return this.refuse(error);
    }
    return this.summary();
  }

  /** @returns {PairUpload} */
  get entry() {
    return this.vault.contents.uploads[this.name];
  }

  /** Check, seal, book and store, before anything leaves. */
  async prepare() {
    const pair = await fetchBoth(this.name, this.server, this.connect);
    const operators = [pair.leader, pair.helper];
    for (const { origin, signing_key: key } of operators) this.vault.checkKey(origin, key);
    checkPair(pair, this.policy);
    for (const { name, origin } of operators) {
      const phase = await phaseAt(this.connect(origin), this.name);
      const token = phase === "confirming" ? "not-confirmed" : phase === "cancelled" ? "campaign-ended" : "uploads-closed";
      if (phase !== "open") throw new ServerViolation(token, `the task is ${phase} at ${name}; uploads need it to be open`);
    }
    const { contents } = this.vault;
    const upload = await makeUpload(pair, this.position, contents.secret, this.token, this.value);
    const cost = exactUnits(pair.epsilon);
    const reserved = { ...contents, ledger: reserve(contents, this.name, cost) };
    const booked = { ...contents, ledger: spend(reserved, this.name, cost) };
    const entry = { task: pair.bytes, digest: sha256(upload), upload, receipt: NOTHING, refusal: null, words: this.words };
    await this.vault.save({
      ledger: settle(booked, this.name), uploads: { ...contents.uploads, [this.name]: entry },
      keys: this.vault.withKeys(...operators.map(({ origin, signing_key: key }) => /** @type {[string, Uint8Array]} */ ([origin, key]))),
    });
    this.notify(`Sealed one upload for ${pair.leader.name} and ${pair.helper.name}; the loss is booked.`);
    return pair;
  }

  /** The stored upload must be for this position; another token may replace its own. @param {PairTask} pair */
  async resume(pair) {
    const kept = readUpload(this.entry.upload);
    if (!equal(shareOf(pair, this.position, this.vault.contents.secret, this.value).report.public, kept.public)) {
      throw new InvalidInput("this device holds an upload for the task with another position or value; both are fixed for a task, because two different uploads could be compared. Give the same ones");
    }
    if (!this.token || this.token === kept.token) return;
    const upload = await makeUpload(pair, this.position, this.vault.contents.secret, this.token, this.value);
    await this.put({ upload, digest: sha256(upload) });
  }

  /** @param {PairTask} pair */
  async send(pair) {
    const channel = this.connect(pair.leader.origin);
    await channel.pause(this.spread * channel.jitter());
    const { upload } = this.entry;
    const answer = await channel.send("PUT", `/tasks/${this.name}/uploads/${hex(readUpload(upload).id)}`, {
      content: upload, headers: { "Content-Type": MSGPACK }, type: MSGPACK, accepts: readReceipt,
    });
    if (answer.status !== 200 && answer.status !== 201) throw new ServerViolation(answer.token, ADVICE[answer.token] ?? `the leader refused the upload: ${answer.detail}`);
    if (!isGoodReceipt(readReceipt(answer.body), pair, upload)) {
      throw new ServerViolation("bad-receipt", "the receipt is not for this upload, or not signed by the leader");
    }
    await this.put({ upload: NOTHING, receipt: answer.body, refusal: null });
  }

  /** @param {Partial<PairUpload>} changes */
  async put(changes) {
    await this.vault.save({ uploads: { ...this.vault.contents.uploads, [this.name]: { ...this.entry, ...changes } } });
  }

  /** @param {ServerViolation} error */
  async refuse(error) {
    const refusal = { token: error.token, reason: error.reason };
    this.notify(`Refused: ${error.reason} [${error.token}]`);
    if (!this.entry) return summarise(this.vault.contents, this.name, refusal);
    await this.put({ refusal }); // the loss stays booked: the leader may have seen the upload
    return this.summary();
  }
}

/** Where a pair stands, as one of its servers says. @param {Channel} channel @param {string} name @returns {Promise<string>} */
async function phaseAt(channel, name) {
  const accepts = (/** @type {Uint8Array} */ body) => check(typeof readJson(body)?.phase === "string", "not the state of a task");
  const answer = await channel.send("GET", `/tasks/${name}/state`, { accepts });
  if (answer.status !== 200) throw new ServerViolation(answer.token, answer.detail || "the state of the task cannot be read");
  return readJson(answer.body).phase;
}
