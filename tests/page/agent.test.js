// The agent against servers and networks that misbehave: it retries the same bytes, refuses lies, and keeps its vault.

import assert from "node:assert/strict";
import * as node from "node:crypto";
import { readFileSync } from "node:fs";
import test from "node:test";
import { Agent, followSeals } from "../../src/semilocal/page/static/device/agent.js";
import { BudgetExceeded, concat, exactUnits, hex, InvalidInput, unitsToNumber, Unreachable, utf8 } from "../../src/semilocal/page/static/device/base.js";
import { Channel } from "../../src/semilocal/page/static/device/channel.js";
import { checkpointBytes, readMessage } from "../../src/semilocal/page/static/device/messages.js";
import { pack, unpack } from "../../src/semilocal/page/static/device/wire.js";
import { policyOf } from "../../src/semilocal/page/static/device/task.js";
import { sha256 } from "../../src/semilocal/page/static/vendor/noble-hashes.js";
import { reserve, settle, spend, Vault } from "../../src/semilocal/page/static/device/vault.js";
import { unhex } from "./read.mjs";
import { memoryStore } from "./store.mjs";

const { plays } = JSON.parse(readFileSync(new URL("../../spec/vectors/plays.json", import.meta.url), "utf8"));
const PLAY = plays.find(({ name }) => name === "values-own-1d");
const PERSON = PLAY.participants.findIndex(({ lines }) => lines.length > 0);
const LIMITS = policyOf({ max_epsilon: 1000, min_k: 1, max_delta: 0.5 });
const SERVER = "https://server.test";
const json = (status, body) => new Response(JSON.stringify(body), { status, headers: { "content-type": "application/json" } });
const bytes = (data) => new Response(data, { headers: { "content-type": "application/msgpack" } });
const problem = (status, token) => new Response(JSON.stringify({ type: `urn:semilocal:problem:${token}`, token, status, title: token, detail: token }), { status, headers: { "content-type": "application/problem+json" } });

/** The slice of a region in a round. */
function sliceOf({ reports, round }, region) {
  const found = reports.map(([, data]) => readMessage(unhex(data), "report")).filter(({ lower, upper }) => `${lower}-${upper}` === region);
  const entries = found.map(({ pseudonym, answer, nonce }) => [pseudonym, answer, nonce]);
  return pack(["slice", unhex(PLAY.id), BigInt(round), ...region.split("-").map(BigInt), entries]);
}

const isValues = (played) => unpack(unhex(played.query))[0] === "value-query";

/** A server that replays a campaign of the vectors for one of its participants. */
class Replay {
  constructor({ bend = (path, answer) => answer() } = {}) {
    this.bend = bend;
    this.closed = 0;
    this.sent = [];
  }

  fetch = async (url, { method, body }) => {
    const path = url.slice(SERVER.length);
    if (body) this.sent.push([path, hex(body)]);
    return this.bend(path, () => this.answer(method, path, body), this);
  };

  answer(method, path, body) {
    const task = `/tasks/${PLAY.id}`;
    const round = Number(/rounds\/(\d+)/.exec(path)?.[1]);
    if (method === "PUT") {
      if (round) this.closed = Math.max(this.closed, round); // everybody else has answered
      return json(201, { digest: hex(sha256(body)) });
    }
    if (path === task) return bytes(unhex(PLAY.bytes));
    if (path === `${task}/plan`) return bytes(unhex(PLAY.plan));
    if (path.startsWith(`${task}/state`)) {
      const after = Number(/after=(-?\d+)/.exec(path)?.[1] ?? -1);
      this.closed = Math.min(Math.max(this.closed, after + 1), PLAY.rounds.length); // a device that waits has nothing to say
      const over = this.closed >= PLAY.rounds.length;
      const phase = over ? "finished" : isValues(PLAY.rounds[this.closed]) ? "releasing" : "collecting";
      return json(200, { task: PLAY.id, phase, round: this.closed + (over ? 0 : 1), closed: this.closed, poll_after: 0 });
    }
    if (path.includes("/slices/")) return bytes(sliceOf(PLAY.rounds[round - 1], path.split("/slices/")[1]));
    if (path.endsWith("/query")) return bytes(unhex(PLAY.rounds[round - 1].query));
    if (path.endsWith("/closed")) return this.closed >= round ? bytes(unhex(PLAY.rounds[round - 1].closed)) : problem(404, "not-closed-yet");
    if (path.endsWith("/checkpoint")) return bytes(pack(["checkpoint", unhex(PLAY.id), BigInt(round), 5n, new Uint8Array(32)]));
    return problem(404, "no-such-route");
  }
}

const WORDS = { region: "A region.", crowd: "A crowd of 3", "crowd-late": "Late", now: "; now there are {members}.", none: "None.", outside: "You answered {answered}, outside.", inside: "You answered {answered}, all here.", mixed: "You answered {answered}, {inside} here.", lines: "Lines.", values: "Values.", rest: "The rest.", spent: "What you spent: epsilon = {epsilon} (delta = 0) between two places." };

const noPause = async () => {};

async function takePart(server, { pause = noPause, store = memoryStore(), policy = LIMITS, person = PERSON, position = PLAY.participants[person].point, value = PLAY.participants[person].value, agreed, keys } = {}) {
  const vault = await Vault.open(store, unhex(PLAY.participants[person].secret));
  if (keys) await vault.save({ keys });
  let now = 0;
  const channel = new Channel(SERVER, { fetch: server.fetch, sleep: async (milliseconds) => { now += milliseconds; await pause(milliseconds); }, now: () => now, jitter: () => 0.5 });
  const summary = await new Agent(channel, PLAY.id, vault, position, policy, { agreed, value, words: WORDS }).run();
  return { summary, vault };
}

const listed = PLAY.rounds.flatMap(({ round, reports }) => reports.filter(([person]) => person === PERSON).map(([, data]) => [round, data]));
const reportsOf = (server) => server.sent.filter(([path]) => path.includes("/reports/")).map(([path, data]) => [Number(/rounds\/(\d+)/.exec(path)[1]), data]);

test("the agent sends the reports of the vectors and tells what they cost", async () => {
  const server = new Replay();
  const { summary, vault } = await takePart(server);
  assert.equal(summary.outcome, "finished");
  const { region, members, answered, lines } = PLAY.participants[PERSON];
  assert.deepEqual([summary.region.map(String), summary.members, summary.answered, summary.cuts.map(String).sort()], [region, members, answered, lines]);
  assert.deepEqual(reportsOf(server), listed);
  const { randomizer } = PLAY.task;
  const values = [1, 2].map(exactUnits);
  assert.deepEqual(vault.contents.ledger[PLAY.id], { reserved: BigInt(PLAY.task.answers) * exactUnits(randomizer.epsilon) + values[0] + values[1], spent: BigInt(lines.length) * exactUnits(randomizer.epsilon) + values[0] + values[1], settled: true });
  assert.ok(summary.lines.includes(`A region. A crowd of 3; now there are ${members}. You answered ${answered} ${answered === 1 ? "question" : "questions"}, ${answered === lines.length ? "all" : lines.length} here. Lines. Values. The rest.`));
  assert.ok(summary.lines.every((line) => !/epsilon = [\d.]+(?! \(delta = 0\)|[\d.])/.test(line)), "an epsilon without its delta");
  assert.ok(summary.lines.includes(`What you spent: epsilon = ${summary.epsilon} (delta = 0) between two places.`));
});

test("portals, lost answers and busy servers are tried again with the same bytes", async () => {
  const strays = [
    () => new Response("<html>log in</html>", { status: 200, headers: { "content-type": "text/html" } }),
    () => json(200, { digest: "of something else" }),
    () => { throw new TypeError("network"); },
    () => problem(503, "overloaded"),
    () => new Response("{}", { status: 409, headers: { "content-type": "application/json" } }),
  ];
  const seen = new Map();
  const server = new Replay({
    bend: (path, answer) => {
      const count = seen.get(path) ?? 0;
      seen.set(path, count + 1);
      return path.includes("/reports/") && count < strays.length ? strays[count]() : answer();
    },
  });
  const { summary } = await takePart(server);
  assert.equal(summary.outcome, "finished");
  assert.equal(reportsOf(server).length, listed.length * (strays.length + 1));
  assert.deepEqual([...new Map(reportsOf(server))], listed);
  assert.equal(new Set(reportsOf(server).map(([, data]) => data)).size, listed.length);
});

test("a server that never answers is given up, and the vault goes on later", async () => {
  const store = memoryStore();
  const away = new Replay({ bend: (path, answer) => { if (path.includes("/reports/")) throw new TypeError("network"); return answer(); } });
  await assert.rejects(takePart(away, { store }), Unreachable);
  const { summary } = await takePart(new Replay(), { store });
  assert.equal(summary.outcome, "finished");
});

test("a lie in a closing is refused, nothing more is sent, and the reservation stays booked", async () => {
  const first = PLAY.rounds.findIndex(({ query }) => unpack(unhex(query))[3].length > 0);
  const lie = (data) => {
    const message = unpack(data);
    message[4] = message[4].map(([, tally]) => ["split", tally]);
    return pack(message);
  };
  const server = new Replay({ bend: (path, answer) => (path.endsWith(`/rounds/${first + 1}/closed`) ? bytes(lie(unhex(PLAY.rounds[first].closed))) : answer()) });
  const store = memoryStore();
  const { summary, vault } = await takePart(server, { store });
  assert.equal(summary.outcome, "refused");
  assert.equal(summary.token, "wrong-verdict");
  assert.deepEqual(reportsOf(server), listed.filter(([round]) => round <= first + 1));
  assert.equal(vault.contents.ledger[PLAY.id].settled, false);
  const again = new Replay();
  assert.equal((await takePart(again, { store })).summary.outcome, "refused");
  assert.deepEqual(again.sent, []);
});

test("a plan that the owner did not agree to is refused before anything is sent", async () => {
  const server = new Replay();
  const { summary } = await takePart(server, { agreed: new Uint8Array(32) });
  assert.deepEqual([summary.outcome, summary.token], ["refused", "other-plan"]);
  assert.deepEqual(server.sent, []);
  const agreed = sha256(unhex(PLAY.plan));
  assert.equal((await takePart(new Replay(), { agreed })).summary.outcome, "finished");
});

test("another position is refused for a task that was joined", async () => {
  const store = memoryStore();
  await takePart(new Replay(), { store });
  const { point } = PLAY.participants[PERSON];
  await assert.rejects(takePart(new Replay(), { store, position: point.map((x) => x + 1e-9) }), InvalidInput);
});

test("before an answer leaves, the question and its loss are stored", async () => {
  const store = memoryStore();
  const stored = [];
  const server = new Replay({
    bend: async (path, answer) => {
      if (path.includes("/reports/")) stored.push(await store.load());
      return answer();
    },
  });
  await takePart(server, { store });
  assert.equal(stored.length, listed.length);
  for (const [i, { memberships, ledger }] of stored.entries()) {
    const { state, reported } = memberships[PLAY.id];
    const [round, data] = listed[i];
    assert.deepEqual([state.round, reported], [round, listed.slice(0, i + 1).map(([number]) => number)]);
    const message = unpack(unhex(data));
    if (message[0] === "report") assert.equal(state.book.some((booked) => booked.round === round), message[6] !== null, "an answer is in the book before it leaves");
    else assert.ok(ledger[PLAY.id].spent >= exactUnits(1));
  }
});

test("what the owner allowed when joining holds to the end, whatever is allowed later", async () => {
  const store = memoryStore();
  const away = new Replay({ bend: (path, answer) => { if (path.includes("/reports/")) throw new TypeError("network"); return answer(); } });
  await assert.rejects(takePart(away, { store, policy: { ...LIMITS, min_side: [0.9] } }), Unreachable);
  const server = new Replay();
  const { summary } = await takePart(server, { store });
  assert.equal(summary.outcome, "stopped");
  assert.match(summary.reason, /\[small-region\]$/);
  assert.equal(reportsOf(server).length, 1, "only the whole domain is that long");
});

test("a log that was changed while the device was away is refused", async () => {
  const store = memoryStore();
  const away = new Replay({ bend: (path, answer) => { if (path.includes(`/rounds/${listed[2][0]}/reports/`)) throw new TypeError("network"); return answer(); } });
  await assert.rejects(takePart(away, { store }), Unreachable);
  const changed = (data) => {
    const message = unpack(data);
    message[3] = [];
    return pack(message);
  };
  const server = new Replay({ bend: (path, answer) => (path.endsWith("/rounds/1/closed") ? bytes(changed(unhex(PLAY.rounds[0].closed))) : answer()) });
  server.closed = away.closed;
  const { summary } = await takePart(server, { store });
  assert.deepEqual([summary.outcome, summary.token], ["refused", "changed-closing"]);
  assert.equal((await takePart(new Replay(), { store: memoryStore() })).summary.outcome, "finished");
});

test("a device of an earlier version is refused in one sentence", async () => {
  const store = memoryStore();
  await store.save({ secret: new Uint8Array(32), caps: { epsilon: null }, ledger: {}, memberships: {}, uploads: {}, keys: {} });
  await assert.rejects(Vault.open(store), /earlier version/);
});

test("another signing key at a known address is refused before anything is sent", async () => {
  const server = new Replay();
  await assert.rejects(takePart(server, { keys: { [SERVER]: ["ab".repeat(32)] } }), InvalidInput);
  assert.deepEqual(server.sent, []);
  assert.equal((await takePart(new Replay(), { keys: { [SERVER]: [""] } })).summary.outcome, "finished");
});

test("answers are sent late by jitter, so that their time does not tell how long the device computed", async () => {
  const order = [];
  const server = new Replay({ bend: (path, answer) => { if (path.includes("/reports/")) order.push("sent"); return answer(); } });
  await takePart(server, { pause: async (milliseconds) => void order.push(milliseconds) });
  const before = order.flatMap((what, i) => (what === "sent" ? [order[i - 1]] : []));
  assert.deepEqual(before, listed.map(() => 500)); // half of a second, by the jitter of this test
});

test("whether and how often it sends does not depend on the position", async () => {
  const paths = [];
  for (const position of [PLAY.participants[PERSON].point, PLAY.task.hierarchy.box.lower]) {
    const server = new Replay({ bend: (path, answer) => (path.includes("/rounds/1/closed") ? problem(410, "campaign-ended") : answer()) });
    await takePart(server, { position });
    paths.push(server.sent.map(([path]) => path));
  }
  assert.deepEqual(paths[0], paths[1]);
});

test("the cap on all tasks together is exact", () => {
  const contents = { cap: 0.3, ledger: {} };
  contents.ledger = reserve(contents, "a", exactUnits(0.1));
  assert.throws(() => reserve(contents, "b", exactUnits(0.2)), BudgetExceeded); // 0.1 + 0.2 is above 0.3 in doubles
  contents.ledger = spend(contents, "a", exactUnits(0.05));
  assert.throws(() => spend(contents, "a", exactUnits(0.11)), BudgetExceeded);
  contents.ledger = settle({ ledger: spend(contents, "a", exactUnits(0.01)) }, "a");
  assert.ok(reserve(contents, "b", exactUnits(0.2)).b);
  for (const x of [0, 1, 0.1, 1e300, 5e-324, 123.456]) assert.equal(unitsToNumber(exactUnits(x)), x);
});

test("seals are followed in one chain, each signed with the pinned key", async () => {
  const { publicKey, privateKey } = node.generateKeyPairSync("ed25519");
  const task = { id: sha256(utf8("task")), server_key: new Uint8Array(publicKey.export({ format: "der", type: "spki" }).subarray(-32)) };
  const chain = [];
  let head = task.id;
  for (const round of [1, 2]) {
    const point = { task: task.id, round, size: BigInt(3 * round), root: sha256(Uint8Array.of(round)) };
    head = sha256(concat(utf8("semilocal/1/chain"), head, checkpointBytes(point)));
    const signature = new Uint8Array(node.sign(null, concat(utf8("semilocal/1/checkpoint"), head), privateKey));
    chain.push({ point, head, signature });
  }
  const packed = ({ point, head: top, signature }) => pack(["seal", ["checkpoint", point.task, BigInt(point.round), point.size, point.root], top, signature]);
  const follow = (seals) => followSeals({ message: async (path, read) => read(seals[Number(/rounds\/(\d+)/.exec(path)[1]) - 1]) }, task, { round: 0, head: new Uint8Array(0), root: new Uint8Array(0) }, 2);
  const good = chain.map(packed);
  assert.equal(readMessage(good[0], "seal").checkpoint.round, 1);
  assert.deepEqual(await follow(good), { round: 2, head, root: chain[1].point.root });
  const flipped = chain[1].signature.map((byte, i) => (i === 5 ? byte ^ 1 : byte));
  for (const [seals, token] of [
    [[good[0], packed({ ...chain[1], signature: flipped })], "bad-signature"],
    [[good[0], packed({ ...chain[1], signature: new Uint8Array(0) })], "not-signed"],
    [[good[0], packed({ ...chain[1], point: { ...chain[1].point, root: new Uint8Array(32) } })], "wrong-chain"],
    [[good[1], good[1]], "wrong-seal"],
  ]) await assert.rejects(follow(seals), (error) => error.token === token);
});
