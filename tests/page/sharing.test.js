// The device's part of two servers: every vector of spec/vectors/sharing.json, evaluated as both servers would, and the
// primitives against those of Node.

import assert from "node:assert/strict";
import * as node from "node:crypto";
import { readFileSync } from "node:fs";
import test from "node:test";
import { concat, fromBigEndian, hex, littleEndian } from "../../src/semilocal/page/static/device/base.js";
import { envelopeInfo, isSigned, seal } from "../../src/semilocal/page/static/device/crypto.js";
import { ecb } from "../../src/semilocal/page/static/vendor/noble-ciphers.js";
import { x25519 } from "../../src/semilocal/page/static/vendor/noble-curves.js";
import { hmac, sha256 } from "../../src/semilocal/page/static/vendor/noble-hashes.js";
import { roundingWord, uploadEntropy } from "../../src/semilocal/page/static/device/keys.js";
import { pack, unpack } from "../../src/semilocal/page/static/device/wire.js";
import { isPairTask, ownOfPair, readPairTask } from "../../src/semilocal/page/static/device/pair.js";
import { encodeValue, rootState, shard, shareOf, treeHashes } from "../../src/semilocal/page/static/device/upload.js";
import { unhex } from "./read.mjs";

const VECTORS = JSON.parse(readFileSync(new URL("../../spec/vectors/sharing.json", import.meta.url), "utf8"));
const MASK = (1n << 64n) - 1n;
const plain = (data) => new Uint8Array(data);
const fromLittleEndian = (data) => fromBigEndian(data.slice().reverse());

/** What one server sees of one tree, with all cells opened: section 3 and 7 of spec/sharing.md. */
class ServerTree {
  constructor(task, name, nonce, levels, width, server, seed, data) {
    const hashes = treeHashes(task, name);
    this.hash = (which, block) => fromLittleEndian(hashes(which)(littleEndian(block, 16)));
    const packed = Math.ceil(levels / 8);
    const size = 16 + 8 * width + 32;
    Object.assign(this, { levels, width, server, right: fromLittleEndian(data.slice(0, packed)) });
    this.parts = Array.from({ length: levels }, (_, i) => data.slice(packed + i * size, packed + (i + 1) * size));
    this.root = fromLittleEndian(rootState(task, name, nonce, seed, server));
  }

  expand(level, opened) {
    const part = this.parts[level];
    const seed = fromLittleEndian(part.slice(0, 16));
    const seeds = [seed, ((seed >> 1n) << 1n) | ((this.right >> BigInt(level)) & 1n)];
    const correction = Array.from({ length: this.width }, (_, i) => fromLittleEndian(part.slice(16 + 8 * i, 24 + 8 * i)));
    const proof = fromLittleEndian(part.slice(16 + 8 * this.width));
    const sides = [0n, 0n];
    let rest = correction.map(() => 0n);
    const nodes = [];
    for (const { state, words } of opened) {
      rest = rest.map((sum, i) => sum + words[i]);
      for (const side of [0, 1]) {
        const child = this.hash(`child-${side}`, state) ^ (state & 1n ? seeds[side] : 0n);
        const block = this.hash("payload", child);
        const own = correction.map((word, i) => (((block >> BigInt(64 * i)) & MASK) + (child & 1n) * word) & MASK);
        rest = rest.map((sum, i) => sum - own[i]);
        nodes.push({ state: child, words: own });
        const both = this.hash(`proof-${side}a`, child) | (this.hash(`proof-${side}b`, child) << 128n);
        sides[side] ^= both ^ (child & 1n ? proof : 0n);
      }
    }
    const tag = concat(...sides.map((value) => littleEndian(value, 32)), ...rest.map((value) => littleEndian(value & MASK, 8)));
    return { nodes, tag };
  }
}

/** Per parameter of a vector that was evaluated: the tag, and the words of the children, of one of its reports. */
function evaluate({ task, levels, value_bits: bits, parameters, tags: known }, { nonce, public: open, private: parts }, server) {
  const width = bits ? 2 : 1;
  const cut = Math.ceil(levels / 8) + levels * (16 + 8 * width + 32);
  const [id, name, data, secret] = [task, nonce, open, parts[server]].map(unhex);
  let first = "";
  let words = [BigInt(1 - server)];
  if (bits) {
    const small = new ServerTree(id, "value", name, bits, 1, server, secret.slice(16, 32), data.slice(cut));
    let opened = [{ state: small.root, words }];
    const joined = [];
    for (let level = 0; level < bits; level++) {
      const found = small.expand(level, opened);
      opened = found.nodes;
      joined.push(found.tag);
    }
    first = hex(sha256(concat(...joined)));
    words = [...words, opened.reduce((sum, leaf, v) => (sum + BigInt(v) * leaf.words[0]) & MASK, 0n)];
  }
  const tree = new ServerTree(id, "place", name, levels, width, server, secret.slice(0, 16), data.slice(0, cut));
  let below = { "": { state: tree.root, words } };
  return known[server].map((_, level) => {
    const { frontier } = parameters[level];
    const found = tree.expand(level, frontier.map((path) => below[path]));
    below = Object.fromEntries(found.nodes.map((node, i) => [`${frontier[i >> 1]}${i & 1}`, node]));
    return { tag: (level ? "" : first) + hex(found.tag), words: found.nodes.map((node) => node.words) };
  });
}

for (const vector of [...VECTORS.positive, ...VECTORS.negative]) {
  test(`both servers see what the vector says: ${vector.name}`, () => {
    const { reports } = vector;
    for (const { operation, report } of vector.operations) {
      if (operation !== "shard") continue;
      const { nonce, path, value, public: open, private: parts } = reports[report];
      const shape = { levels: vector.levels, valueBits: vector.value_bits };
      const made = shard(unhex(vector.task), unhex(nonce), shape, path, unhex(parts.join("")), value);
      assert.equal(hex(made.public), open);
      assert.deepEqual(made.private.map(hex), parts);
    }
    for (const server of [0, 1]) {
      const seen = reports.map((report) => evaluate(vector, report, server));
      vector.tags[server].forEach((tags, level) => assert.deepEqual(seen.map((one) => one[level].tag), tags));
      vector.sums[server].forEach((sums, level) => {
        const total = seen[0][level].words.map((words, i) => words.map((_, j) => seen.reduce((sum, one) => (sum + one[level].words[i][j]) & MASK, 0n)));
        assert.deepEqual(total.map((words) => words.map(String)), sums);
      });
    }
    for (const { operation, parameter, report, success } of vector.operations) {
      if (operation === "verify_next") assert.equal(vector.tags[0][parameter][report] === vector.tags[1][parameter][report], success);
    }
  });
}

for (const { role, task, report, public: open, bucket, token, info } of VECTORS.envelopes) {
  test(`an envelope of the ${role} is bound to what stands beside it`, () => {
    const about = { role, task: unhex(task), report: unhex(report), public: unhex(open), bucket: BigInt(bucket), token };
    assert.equal(hex(envelopeInfo(about)), info);
  });
}

test("reports refuse what has no place in them", () => {
  const shape = { levels: 3, valueBits: 0 };
  for (const act of [
    () => shard(new Uint8Array(32), new Uint8Array(16), shape, [0, 1], new Uint8Array(32)),
    () => shard(new Uint8Array(32), new Uint8Array(16), shape, [0, 1, 2], new Uint8Array(32)),
    () => shard(new Uint8Array(32), new Uint8Array(16), shape, [0, 1, 1], new Uint8Array(31)),
    () => shard(new Uint8Array(32), new Uint8Array(16), shape, [0, 1, 1], new Uint8Array(32), 1),
    () => shard(new Uint8Array(32), new Uint8Array(16), { levels: 3, valueBits: 2 }, [0, 1, 1], new Uint8Array(64), 4),
  ]) assert.throws(act, { name: "InvalidInput" });
});

test("what is vendored hashes, encrypts and agrees as Node does", () => {
  const data = plain(node.randomBytes(1000));
  const key = plain(node.randomBytes(16));
  assert.equal(hex(sha256(data)), node.createHash("sha256").update(data).digest("hex"));
  assert.equal(hex(hmac(sha256, key, data)), node.createHmac("sha256", key).update(data).digest("hex"));
  const cipher = node.createCipheriv("aes-128-ecb", key, null);
  assert.equal(hex(ecb(key, { disablePadding: true }).encrypt(data.slice(0, 16))), cipher.update(data.slice(0, 16)).toString("hex"));
  const [ours, theirs] = [0, 1].map(() => node.generateKeyPairSync("x25519"));
  const [secret, other] = [ours.privateKey.export({ format: "der", type: "pkcs8" }), theirs.publicKey.export({ format: "der", type: "spki" })].map((one) => plain(one.subarray(-32)));
  const agreed = node.diffieHellman({ privateKey: ours.privateKey, publicKey: theirs.publicKey });
  assert.equal(hex(x25519.getSharedSecret(secret, other)), agreed.toString("hex"));
});

test("a key that is no key is refused before anything is sealed", async () => {
  const about = { role: "leader", task: new Uint8Array(32), report: new Uint8Array(16), public: new Uint8Array(1), bucket: 1n, token: "" };
  await assert.rejects(seal(new Uint8Array(16), new Uint8Array(32), about), { name: "InvalidInput", message: /not a key/ });
});

test("a signature holds for its key and message only", () => {
  const { publicKey, privateKey } = node.generateKeyPairSync("ed25519");
  const key = plain(publicKey.export({ format: "der", type: "spki" }).subarray(-32));
  const message = plain(node.randomBytes(70));
  const signature = plain(node.sign(null, message, privateKey));
  assert.equal(isSigned(signature, key, message), true);
  for (const [at, which] of [[0, signature], [40, signature], [3, key], [69, message]]) {
    const changed = which.slice();
    changed[at] ^= 1;
    const given = [signature, key, message].map((part) => (part === which ? changed : part));
    assert.equal(isSigned(...given), false);
  }
  const order = 2n ** 252n + 27742317777372353535851937790883648493n;
  const larger = concat(signature.slice(0, 32), littleEndian(fromLittleEndian(signature.slice(32)) + order, 32));
  assert.equal(isSigned(larger, key, message), false); // the same number in another spelling
});

for (const entry of VECTORS.asked) {
  test(`a task that asks for a value: ${entry.name}`, () => {
    const pair = readPairTask(unhex(entry.pair));
    assert.ok(isPairTask(unhex(entry.pair)));
    assert.equal(hex(pair.id), entry.task);
    assert.deepEqual([pair.epsilon, pair.levels, pair.asked.bits], [entry.epsilon, entry.levels, entry.value_bits]);
    for (const { secret, word, value, sent, entropy, entropy_of: of } of entry.devices) {
      assert.equal(String(roundingWord(unhex(secret), pair.id)), word);
      assert.equal(encodeValue(pair.asked, value, BigInt(word)), sent);
      assert.equal(hex(uploadEntropy(unhex(secret), pair.id, BigInt(of[0]), 64, of[1])), entropy);
      const own = ownOfPair(pair) ? value : null;
      assert.ok(shareOf(pair, own === null ? [value, 1] : [3, 1], unhex(secret), own).report.public.length);
      for (const bad of own === null ? [1] : [null, NaN, entry.low - 1e-9, entry.high + 1e-9]) {
        assert.throws(() => shareOf(pair, [3, 1], unhex(secret), bad), { name: "InvalidInput" });
      }
    }
  });
}

test("a task with a value that is not well formed is refused", () => {
  const fields = unpack(unhex(VECTORS.asked[0].pair));
  const changed = (name, value) => pack({ ...fields, value: { ...fields.value, [name]: value } });
  assert.equal(hex(changed("name", "fare")), VECTORS.asked[0].pair);
  for (const [name, value] of [
    ["name", ""], ["name", "x".repeat(101)], ["name", "a\u0007"], ["low", 100.0], ["high", Infinity], ["bits", 0n], ["bits", 11n], ["mean", "some"],
    ["parameters", [1.5]], ["function", "gaussian_bump"], ["function", "coordinate"],
  ]) assert.throws(() => readPairTask(changed(name, value)), { name: "InvalidInput" }, `${name} ${value}`);
  assert.throws(() => readPairTask(pack({ ...fields, bucket_depth: 2n })), { name: "InvalidInput" });
  assert.throws(() => readPairTask(pack({ ...fields, type: "pair-task" })), /earlier version of the shares/);
  const place = unpack(unhex(VECTORS.asked[2].pair));
  const pair = readPairTask(pack({ ...place, value: { ...place.value, high: 7.5 } }));
  assert.throws(() => shareOf(pair, [1, 1], new Uint8Array(32), null), { name: "InvalidInput", message: /leaves the stated range/ });
});
