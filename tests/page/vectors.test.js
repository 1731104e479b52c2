// Replays spec/vectors/: the device of the page passes everything that the specification checks of a device.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { hex, InvalidInput, ServerViolation } from "../../src/semilocal/page/static/device/base.js";
import { Tree } from "../../src/semilocal/page/static/device/trees.js";
import * as keys from "../../src/semilocal/page/static/device/keys.js";
import { checkFunction, readPlan } from "../../src/semilocal/page/static/device/plan.js";
import { clippedValue, functionRange, functionValue, outputOf } from "../../src/semilocal/page/static/device/values.js";
import { readMessage, seedOf } from "../../src/semilocal/page/static/device/messages.js";
import { pack, unpack } from "../../src/semilocal/page/static/device/wire.js";
import { draw, FRESH, Participant } from "../../src/semilocal/page/static/device/participant.js";
import { respond, responseWeights } from "../../src/semilocal/page/static/device/randomizer.js";
import { tail, thresholdHolds } from "../../src/semilocal/page/static/device/rule.js";
import { checkTask, readTask } from "../../src/semilocal/page/static/device/task.js";
import { readServerMessage, receive, unhex } from "./read.mjs";

const load = (name) => JSON.parse(readFileSync(new URL(`../../spec/vectors/${name}.json`, import.meta.url), "utf8"));
const [TABLES, PLAYS, REFUSALS, MALFORMED, VALUES] = ["tables", "plays", "refusals", "malformed", "values"].map(load);
const OPEN = { max_epsilon: 1e6, min_k: 1, max_delta: 1, min_side: [] };

/** What a browser takes part in: rule "cut", over halves of a box, with coordinates and sums of them. */
const isTree = ({ kind }) => kind === "binary";
const isHere = ({ task, name }) => task.rule === "cut" && isTree(task.hierarchy) && name !== "values-cut-2d";

function refuses(act, token) {
  assert.throws(act, (error) => error instanceof ServerViolation && error.token === token, token);
}

test("numbers have the bytes of the specification", () => {
  for (const [text, data] of TABLES.integers) assert.equal(hex(pack(BigInt(text))), data);
  for (const [value, data] of TABLES.floats) assert.equal(hex(pack(value)), data);
  for (const [text, data] of TABLES.integers) assert.equal(unpack(unhex(data)), BigInt(text));
});

test("bytes that nest too deep, promise too much, or stand for nothing of the protocol are refused", () => {
  for (const data of [
    "91".repeat(17) + "01", "dd00010000".repeat(5000), "dfffffffff", "c6ffffffff00", // depth and lengths
    "a3eda080", "a2c080", "ca3f800000", "d6ff00000000", "c1", "8101c0", "82a161c0a161c0", "81a95f5f70726f746f5f5f5fc0", "cc01", "cf0000000000000001", "c000", "",
  ]) assert.throws(() => unpack(unhex(data)), InvalidInput, data.slice(0, 20));
  const deep = "91".repeat(16) + "01";
  assert.equal(hex(pack(unpack(unhex(deep)))), deep);
  assert.throws(() => pack(2n ** 64n), InvalidInput);
});

for (const [i, entry] of TABLES.cells.filter(({ hierarchy }) => isTree(hierarchy)).entries()) {
  test(`cells ${i}`, () => {
    const tree = new Tree(entry.hierarchy);
    assert.equal(tree.tickBits, entry.tick_bits);
    entry.points.forEach((point, row) => {
      const code = tree.codeOf(point);
      assert.deepEqual(tree.ticks(point).map(String), entry.ticks[row].map(String));
      assert.equal(String(code), String(entry.codes[row]));
      const { lower, upper } = tree.corners(code);
      assert.deepEqual([lower, upper], entry.boxes[row]);
    });
  });
}

test("a position outside the domain is refused, not clipped", () => {
  const tree = new Tree(TABLES.cells[0].hierarchy);
  for (const x of [-1e-9, 1.0000001, NaN, Infinity]) assert.throws(() => tree.ticks([x]), InvalidInput);
  assert.throws(() => tree.ticks([0.5, 0.5]), InvalidInput);
});

for (const [i, entry] of TABLES.intervals.filter(({ hierarchy }) => isTree(hierarchy)).entries()) {
  test(`intervals ${i}`, () => {
    const tree = new Tree(entry.hierarchy);
    const [lower, upper] = entry.region.map(BigInt);
    assert.deepEqual(tree.intervalCells(lower, upper).map(String), entry.cells);
    assert.equal(String(tree.largestCell(lower, upper)), entry.largest);
    tree.sides(tree.largestCell(lower, upper)).forEach((side, axis) => assert.ok(Math.abs(side / entry.sides[axis] - 1) < 1e-12)); // a cosine
  });
}

test("weights", () => {
  for (const entry of TABLES.response_weights.filter(({ fanout }) => fanout === 2)) {
    const found = responseWeights(entry.epsilon);
    assert.deepEqual([String(found.true), String(found.other)], [entry.true, entry.other]);
  }
});

test("names and entropy", () => {
  const { secret, task, pseudonym, derive, reports } = TABLES.entropy;
  assert.equal(hex(keys.pseudonym(unhex(secret), unhex(task))), pseudonym);
  for (const [label, length, derived] of derive) assert.equal(hex(keys.derive(unhex(secret), unhex(label), length)), derived);
  const join = (words) => words.map((word) => word.toString(16).padStart(16, "0")).join("");
  for (const row of reports) {
    const words = keys.reportWords(unhex(secret), unhex(task), row.round, row.region.map(BigInt), row.cuts.map(BigInt), row.words);
    assert.equal(join(words), row.entropy);
  }
  for (const [round, nonce] of TABLES.entropy.nonces) assert.equal(hex(keys.nonceOf(unhex(secret), unhex(task), round)), nonce);
  const chain = TABLES.entropy.chain.map(unhex);
  chain.slice(1).forEach((preimage, i) => assert.ok(keys.leadsTo(preimage, chain[i]) && !keys.leadsTo(chain[i], preimage)));
  const values = VALUES.entropy;
  for (const row of values.values) {
    const word = keys.valueWord(unhex(values.secret), unhex(values.task), unhex(values.plan), row.index, row.region.map(BigInt));
    assert.equal(join([word]), row.entropy);
  }
});

test("draws", () => {
  const { closed, seed, names, draws } = TABLES.draws;
  assert.equal(hex(seedOf(readMessage(unhex(closed), "closed"))), seed);
  for (const [size, drawn] of draws) assert.deepEqual(draw(names.slice(0, size).map(unhex), unhex(seed), drawn.length).map(hex), drawn);
});

for (const [i, entry] of TABLES.answers.filter(({ randomizer: { kind, fanout } }) => kind === "randomized-response" && fanout === 2).entries()) {
  test(`answers ${i}`, () => {
    assert.deepEqual(entry.words.map(([word]) => respond(entry.randomizer.epsilon, entry.child, BigInt(word))), entry.answers);
  });
}

test("thresholds: the smallest t is accepted, one less is not", () => {
  for (const [epsilon, k, delta, askable, asked, failed, least] of TABLES.thresholds) {
    const task = { k, tolerate_liars: 0, delta, randomizer: { epsilon } };
    const holds = (threshold) => thresholdHolds(task, { askable, asked, failed, threshold });
    assert.ok(holds(least) && !holds(least - 1), `${[epsilon, k, delta, askable, asked, failed, least]}`);
  }
  assert.ok(tail(3000, 200, 20, 1, 0) > 0.999999 && tail(60, 40, 20, 1, 41) === 0);
  assert.ok(Math.abs(tail(60, 40, 20, 1, 25) - 0.0036) < 1e-4);
});

/** The slices of a round, by region. */
function slicesOf(reports) {
  const found = new Map();
  for (const data of reports) {
    const { task, round, pseudonym, lower, upper, answer, nonce } = readMessage(unhex(data), "report");
    const key = `${lower}-${upper}`;
    if (!found.has(key)) found.set(key, ["slice", task, BigInt(round), lower, upper, []]);
    found.get(key)[5].push([pseudonym, answer, nonce]);
  }
  for (const row of found.values()) row[5].sort((a, b) => (hex(a[0]) < hex(b[0]) ? -1 : 1));
  return new Map([...found].map(([key, row]) => [key, readMessage(pack(row), "slice")]));
}

for (const entry of PLAYS.plays.filter(isHere)) {
  test(`play ${entry.name}`, () => {
    const [task, plan] = [readTask(unhex(entry.bytes)), readPlan(unhex(entry.plan))];
    assert.equal(hex(task.id), entry.id);
    const begin = ({ point, secret, value }, state) => new Participant(task, point, unhex(secret), OPEN, plan, { value, state });
    const people = entry.participants.map((person) => begin(person));
    const log = [];
    for (const played of entry.rounds) {
      const query = readServerMessage(unhex(played.query));
      const [away, lost] = [entry.away, entry.lost].map((rows) => rows[String(played.round)] ?? []);
      const sent = {};
      people.forEach((person, i) => {
        if (away.includes(i)) {
          if (query.type === "query") person.observe(query);
          return;
        }
        const kept = person.state;
        const report = receive(person, query);
        assert.deepEqual(receive(person, query), report, "the same bytes again");
        if (i === played.round % people.length) { // one that reads the log from round 1
          const again = begin(entry.participants[i], kept);
          for (const row of log) {
            again.observe(row.query);
            again.close(row.closed, row.slices.get(again.log.region.join("-")) ?? null);
          }
          assert.deepEqual(receive(again, query), report);
          assert.deepEqual(again.state, person.state);
        }
        if (report !== null && !lost.includes(i)) sent[i] = hex(report);
      });
      assert.deepEqual(sent, Object.fromEntries(played.reports));
      const closed = readServerMessage(unhex(played.closed));
      if (closed.type !== "closed") continue;
      const slices = slicesOf(played.reports.map(([, data]) => data));
      for (const person of people) {
        const region = person.wanted(closed);
        person.close(closed, region ? slices.get(region.join("-")) : null);
      }
      log.push({ query, closed, slices });
    }
    people.forEach((person, i) => {
      const { region, members, answered, lines, stopped } = entry.participants[i];
      assert.deepEqual(person.region?.map(String) ?? null, region);
      assert.deepEqual([person.members, person.state.book.length, person.lines.map(String), person.state.stopped !== ""], [members, answered, lines, stopped]);
      assert.ok(person.inside <= task.answers);
    });
  });
}

test("what a browser does not take part in is refused in one sentence", () => {
  const others = PLAYS.plays.filter((entry) => !isHere(entry));
  assert.ok(new Set(others.map(({ task: { rule, hierarchy } }) => `${rule} ${hierarchy.kind}`)).size > 5);
  for (const { bytes, plan } of others) assert.throws(() => [readTask(unhex(bytes)), readPlan(unhex(plan))], { name: "InvalidInput", message: /^a browser does not take part in .*: use the Python client/ });
});

for (const entry of REFUSALS.joining.filter(({ task }) => isHere(REFUSALS.tasks[task]))) {
  test(`joining: ${entry.name}`, () => {
    const task = readTask(unhex(REFUSALS.tasks[entry.task].bytes));
    refuses(() => new Participant(task, [0.3], new Uint8Array(32), entry.policy, readPlan(unhex(entry.plan))), entry.token);
  });
}

test("a limit that is not a number refuses", () => {
  const task = readTask(unhex(REFUSALS.tasks.cut.bytes));
  refuses(() => checkTask(task, readPlan(pack(["plan", task.id, []])), { ...OPEN, max_epsilon: NaN }), "over-budget");
});

/** Give a step of a story to a device; the bytes of its report, if there is one. */
function give(device, [kind, data, reports], last) {
  if (kind === "close") return device.close(readMessage(unhex(data), "closed"), reports && readMessage(unhex(reports), "slice")) ?? null;
  if (kind === "counted") return device.checkCounted(readMessage(unhex(data), "value-closed"), readMessage(last, "value-report").answer) ?? null;
  if (kind === "observe") return device.observe(readMessage(unhex(data), "query")) ?? null;
  return receive(device, readServerMessage(unhex(data)));
}

const LIMITED = ["region-too-deep", "cut-once-too-often"]; // by limits that a browser does not have
for (const entry of REFUSALS.messages.filter(({ name, story }) => isHere(REFUSALS.stories[story]) && !LIMITED.includes(name))) {
  test(`refused and goes on: ${entry.name}`, () => {
    const story = REFUSALS.stories[entry.story];
    const kept = entry.state && { ...FRESH, region: entry.state.region.map(BigInt), round: entry.state.round, question: unhex(entry.state.question) };
    const device = new Participant(readTask(unhex(story.bytes)), story.point, unhex(story.secret), entry.policy, readPlan(unhex(story.plan)), { state: kept ?? undefined });
    let last = null;
    for (const [kind, ...rest] of story.steps.slice(0, entry.after)) last = give(device, [kept && kind === "answer" ? "observe" : kind, ...rest], last) ?? last;
    const before = structuredClone(device.state);
    for (let i = 0; i < (entry.stops ? 1 : 2); i++) {
      refuses(() => give(device, entry.step, last), entry.token);
      if (!entry.stops) assert.deepEqual(device.state, before);
    }
    if (entry.stops) {
      assert.ok(device.state.stopped);
      assert.equal(give(device, entry.step, last), null);
    } else if (!kept) {
      const report = give(device, story.steps[entry.after], last);
      assert.equal(report && hex(report), entry.then);
    }
  });
}

test("who is not in the log gives no value: its announcement was lost", () => {
  const { bytes, point, plan, steps } = REFUSALS.stories.values;
  const device = new Participant(readTask(unhex(bytes)), point, new Uint8Array(32), OPEN, readPlan(unhex(plan)));
  for (const [kind, ...rest] of steps) {
    if (kind === "counted") continue;
    const said = give(device, [kind, ...rest], null);
    assert.equal(kind === "value" && said, kind === "value" ? null : false);
  }
  assert.ok(device.region);
  assert.deepEqual(device.state.values, []);
});

/** Read bytes as one kind of message. */
function read(kind, data) {
  return kind === "task" ? readTask(data) : kind === "plan" ? readPlan(data) : readMessage(data, kind);
}

for (const entry of MALFORMED.malformed) {
  test(`malformed: ${entry.name}`, () => {
    assert.throws(() => read(entry.kind, unhex(entry.bytes)), InvalidInput, entry.why);
  });
}

test("the good messages are read", () => {
  for (const [kind, data] of Object.entries(MALFORMED.good)) assert.ok(read(kind, unhex(data)), kind);
});

for (const [i, entry] of VALUES.functions.entries()) {
  test(`functions and clipped values ${i}`, () => {
    for (const { function: name, parameters, range, values, clip, scaled } of entry.functions) {
      if (name !== "coordinate" && name !== "linear") {
        assert.throws(() => checkFunction(name, parameters), /does not take part/);
        continue;
      }
      checkFunction(name, parameters);
      assert.deepEqual(functionRange(name, parameters, entry.box), range);
      entry.points.forEach((x, row) => {
        assert.equal(functionValue(name, parameters, x), values[row]);
        assert.equal(clippedValue({ function: name, parameters }, x, null, { low: clip[0], high: clip[1] }), scaled[row]);
      });
    }
  });
}

test("own values are taken, or refused", () => {
  const { task, plan, values, refused } = VALUES.own;
  const pinned = [readTask(unhex(task)), readPlan(unhex(plan))];
  for (const value of values) assert.equal(new Participant(pinned[0], [0.3], new Uint8Array(32), OPEN, pinned[1], { value }).state, FRESH);
  for (const row of refused) {
    const act = () => new Participant(pinned[0], [0.3], new Uint8Array(32), OPEN, readPlan(unhex(row.plan)), { value: row.value });
    assert.throws(act, InvalidInput, row.name);
  }
  assert.throws(() => new Participant(pinned[0], [0.3], new Uint8Array(32), OPEN, pinned[1], { value: NaN }), InvalidInput);
});

for (const [i, entry] of VALUES.mechanisms.entries()) {
  test(`mechanism ${i} ${entry.mechanism.type}`, () => {
    for (const [step, word, listed] of entry.outputs) assert.equal(outputOf(entry.mechanism, step / 2 ** 20, BigInt(word)), listed);
  });
}
