// The one upload to two servers that misbehave: what is refused, before anything is sent, and what is stored before it is.

import assert from "node:assert/strict";
import * as node from "node:crypto";
import { readFileSync } from "node:fs";
import test from "node:test";
import { bigEndian, BudgetExceeded, concat, exactUnits, hex, InvalidInput, utf8 } from "../../src/semilocal/page/static/device/base.js";
import { Channel } from "../../src/semilocal/page/static/device/channel.js";
import { pack, unpack } from "../../src/semilocal/page/static/device/wire.js";
import { readPairTask } from "../../src/semilocal/page/static/device/pair.js";
import { policyOf } from "../../src/semilocal/page/static/device/task.js";
import { sha256 } from "../../src/semilocal/page/static/vendor/noble-hashes.js";
import { readUpload, Uploader } from "../../src/semilocal/page/static/device/upload.js";
import { Vault } from "../../src/semilocal/page/static/device/vault.js";
import { unhex } from "./read.mjs";
import { memoryStore } from "./store.mjs";

const { asked } = JSON.parse(readFileSync(new URL("../../spec/vectors/sharing.json", import.meta.url), "utf8"));
const LIMITS = policyOf({ max_epsilon: 100 });
const SECRET = new Uint8Array(32).fill(7);
const raw = (key) => new Uint8Array(key.export({ format: "der", type: "spki" }).subarray(-32));
const SIGNING = { leader: node.generateKeyPairSync("ed25519"), helper: node.generateKeyPairSync("ed25519") };
const operator = (role) => ({
  name: `the ${role}`, origin: `https://${role}.test`, signing_key: raw(SIGNING[role].publicKey),
  sealing_key: raw(node.generateKeyPairSync("x25519").publicKey),
});
const OPERATORS = { leader: operator("leader"), helper: operator("helper") };

/** The bytes of a pair that asks for no value, with other operators and fields. */
function pairBytes(changes = {}) {
  const { value: _, ...fields } = unpack(unhex(asked[0].pair));
  return pack({ ...fields, ...OPERATORS, ...changes });
}

const PAIR = pairBytes();
const NAME = hex(sha256(PAIR));
const POSITION = readPairTask(PAIR).tree.box.lower.map((low, axis) => (low + readPairTask(PAIR).tree.box.upper[axis]) / 2);
const json = (body) => new Response(JSON.stringify(body), { headers: { "content-type": "application/json" } });
const bytes = (data) => new Response(data, { headers: { "content-type": "application/msgpack" } });
const problem = (status, token) => new Response(JSON.stringify({ type: `urn:semilocal:problem:${token}`, token, status, detail: token }), { status, headers: { "content-type": "application/problem+json" } });

/** Both servers: what they show, and a leader that signs receipts. */
class Pair {
  constructor({ shown = {}, phase = {} } = {}) {
    this.shown = { leader: PAIR, helper: PAIR, ...shown };
    this.phase = { leader: "open", helper: "open", ...phase };
    this.sent = [];
  }

  fetch = async (url, { method, body }) => {
    const role = url.startsWith("https://leader.test") ? "leader" : "helper";
    if (method === "PUT") return this.take(body);
    if (url.endsWith("/state")) return json({ phase: this.phase[role] });
    return this.shown[role] ? bytes(this.shown[role]) : problem(404, "no-such-task");
  };

  async take(body) {
    this.sent.push(hex(body));
    this.stored = await this.store.load();
    const parts = [unhex(NAME), readUpload(body).id, sha256(body), bigEndian(3600n, 8)];
    const signed = concat(utf8("semilocal/1/sharing/receipt/"), ...parts.flatMap((part) => [bigEndian(part.length, 8), part]));
    const signature = new Uint8Array(node.sign(null, signed, SIGNING.leader.privateKey));
    return bytes(pack(["receipt", parts[0], parts[1], parts[2], 3600n, signature]));
  }
}

async function upload(pair, { policy = LIMITS, store = memoryStore(), changes = {} } = {}) {
  const vault = await Vault.open(store, SECRET);
  await vault.save(changes);
  pair.store = store;
  const connect = (origin) => new Channel(origin, { fetch: pair.fetch, sleep: async () => {} });
  const summary = await new Uploader(connect, "https://leader.test", NAME, vault, POSITION, policy).run();
  return { summary, vault };
}

test("the upload and its loss are stored before it leaves, and it leaves once", async () => {
  const pair = new Pair();
  const store = memoryStore();
  const { vault } = await upload(pair, { store });
  const { epsilon } = readPairTask(PAIR);
  assert.equal(hex(pair.stored.uploads[NAME].upload), pair.sent[0]);
  assert.deepEqual(pair.stored.ledger[NAME], { reserved: exactUnits(epsilon), spent: exactUnits(epsilon), settled: true });
  assert.ok(vault.contents.uploads[NAME].receipt.length);
  await upload(pair, { store });
  assert.equal(pair.sent.length, 1);
});

const REFUSED = {
  "a loss above the owner's limit": [new Pair(), { policy: policyOf({ max_epsilon: 0.5 }) }, "over-budget"],
  "a helper that knows no such task": [new Pair({ shown: { helper: null } }), {}, "no-such-task"],
  "a helper that shows another task": [new Pair({ shown: { helper: pairBytes({ bucket_depth: 2n }) } }), {}, "other-task"],
  "a leader that shows another task": [new Pair({ shown: { leader: pairBytes({ bucket_depth: 2n }) } }), {}, "other-task"],
  "a helper who has not confirmed": [new Pair({ phase: { helper: "confirming" } }), {}, "not-confirmed"],
  "a leader that counts already": [new Pair({ phase: { leader: "levels" } }), {}, "uploads-closed"],
};

for (const [what, [pair, options, token]] of Object.entries(REFUSED)) {
  test(`${what} is refused before anything is sent or booked`, async () => {
    const { summary, vault } = await upload(pair, options);
    assert.deepEqual([summary.outcome, summary.token], ["refused", token]);
    assert.deepEqual([pair.sent, vault.contents.ledger], [[], {}]);
  });
}

test("another key of either operator is refused before anything is sent", async () => {
  for (const role of ["leader", "helper"]) {
    const pair = new Pair();
    await assert.rejects(upload(pair, { changes: { keys: { [`https://${role}.test`]: ["ab".repeat(32)] } } }), InvalidInput);
    assert.deepEqual(pair.sent, []);
  }
});

test("the cap on all tasks together holds for uploads", async () => {
  const pair = new Pair();
  await assert.rejects(upload(pair, { changes: { cap: 0.5 } }), BudgetExceeded);
  assert.deepEqual(pair.sent, []);
});

test("two operators that may be one are refused", () => {
  for (const [field, words] of [["name", /same name/], ["origin", /same origin/], ["signing_key", /same signing key/], ["sealing_key", /same sealing key/]]) {
    const helper = { ...OPERATORS.helper, [field]: OPERATORS.leader[field] };
    assert.throws(() => readPairTask(pairBytes({ helper })), { name: "InvalidInput", message: words });
  }
});
