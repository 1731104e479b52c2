// One upload to two servers: checked against the owner's policy, sealed, stored with its loss, then sent until it is
// acknowledged with the same bytes. Whether and when something is sent never depends on the position. Experimental: nobody
// independent has reviewed this mode yet. Knows the order of things. Knows no storage and no page.

import { InvalidInput, ServerViolation, check } from "#device/errors.js";
import { equal, exactUnits, hex } from "#device/bytes.js";
import { MSGPACK, SPREAD, readJson } from "#device/channel.js";
import { checkPair, otherOrigin, readPairTask } from "#device/pair.js";
import { pinned } from "#device/pinned.js";
import { sha256 } from "#device/sha256.js";
import { summarise } from "#device/summary.js";
import { isGoodReceipt, makeUpload, packUpload, readReceipt, readUpload, shareOf } from "#device/upload.js";
import { reserve, settle, spend } from "#device/ledger.js";

/** @typedef {import("#device/channel.js").Channel} Channel */
/** @typedef {import("#device/pair.js").PairTask} PairTask */
/** @typedef {import("#device/vault.js").PairUpload} PairUpload */
/** @typedef {import("#device/agent.js").Options & {allowBucket?: boolean}} Options */

const NOTHING = new Uint8Array(0);
const ADVICE = /** @type {Record<string, string>} */ ({
  "bad-token": "the leader does not know this token; ask the campaign's administrator for one and join again",
  "token-used": "the token was used for another upload; ask the campaign's administrator for a new one and join again",
});

/** @param {Channel} channel @param {string} name */
async function fetchPair(channel, name) {
  const pair = await channel.message(`/tasks/${name}`, (data) => readPairTask(pinned(data, name)));
  if (pair === null) throw new ServerViolation("malformed", "the task must exist from the start");
  return pair;
}

/** The pair as both operators show it, each at its own origin. @param {string} name @param {string} server where it was found @param {(origin: string) => Channel} connect */
async function fetchBoth(name, server, connect) {
  const pair = await fetchPair(connect(server), name);
  await fetchPair(connect(otherOrigin(pair, server)), name); // its id is the hash of the same bytes
  return pair;
}

export class Uploader {
  /**
   * @param {(origin: string) => Channel} connect @param {string} server @param {string} name the task's id
   * @param {import("#device/vault.js").Vault} vault @param {number[]} position @param {import("#device/policy.js").Policy} policy @param {Options} [options]
   */
  constructor(connect, server, name, vault, position, policy, options = {}) {
    this.connect = connect;
    this.server = server;
    this.name = name;
    this.vault = vault;
    this.position = position.map(Number);
    this.policy = policy;
    this.value = options.value ?? null;
    this.token = options.token ?? "";
    this.spread = options.spread ?? SPREAD;
    this.newKey = options.newKey ?? false;
    this.allowBucket = options.allowBucket ?? false;
    this.notify = options.notify ?? (() => {});
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

  summary() {
    return summarise(this.vault.contents, this.name);
  }

  /** @returns {PairUpload} */
  get entry() {
    return this.vault.contents.uploads[this.name];
  }

  /** Check, seal, book and store, before anything leaves. */
  async prepare() {
    const pair = await fetchBoth(this.name, this.server, this.connect);
    const operators = [pair.leader, pair.helper];
    if (!this.newKey) for (const { origin, signing_key: key } of operators) this.vault.checkKey(origin, key);
    checkPair(pair, this.policy, this.allowBucket);
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
    const entry = { task: pair.bytes, digest: sha256(upload), upload, receipt: NOTHING, refusal: null };
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
    const upload = packUpload({ ...kept, token: this.token });
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
    if (!(await isGoodReceipt(readReceipt(answer.body), pair, upload))) {
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
  const answer = await channel.send("GET", `/tasks/${name}/state`, { accepts: readPhase });
  if (answer.status !== 200) throw new ServerViolation(answer.token, answer.detail || "the state of the task cannot be read");
  return readPhase(answer.body);
}

/** @param {Uint8Array} body @returns {string} */
function readPhase(body) {
  const phase = readJson(body)?.phase;
  check(typeof phase === "string", "not the state of a task");
  return phase;
}
