// Replays spec/vectors/: the device of the page passes everything that the specification checks of a device.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { fromBigEndian, hex, unhex } from "../../src/semilocal/page/static/device/bytes.js";
import { InvalidInput, ServerViolation } from "../../src/semilocal/page/static/device/errors.js";
import { Tree } from "../../src/semilocal/page/static/device/hierarchy.js";
import { treeOf } from "../../src/semilocal/page/static/device/trees.js";
import * as keys from "../../src/semilocal/page/static/device/keys.js";
import { outputOf } from "../../src/semilocal/page/static/device/mechanisms.js";
import { readMessage, readServerMessage } from "../../src/semilocal/page/static/device/messages.js";
import { pack, unpack } from "../../src/semilocal/page/static/device/msgpack.js";
import { Participant } from "../../src/semilocal/page/static/device/participant.js";
import { readPlan } from "../../src/semilocal/page/static/device/plan.js";
import { laplaceNoise, respond, responseWeights } from "../../src/semilocal/page/static/device/randomizer.js";
import { passes, verdict } from "../../src/semilocal/page/static/device/rule.js";
import { readTask } from "../../src/semilocal/page/static/device/task.js";
import { functionRange, functionValue, scaledValue } from "../../src/semilocal/page/static/device/values.js";

const load = (name) => JSON.parse(readFileSync(new URL(`../../spec/vectors/${name}.json`, import.meta.url), "utf8"));
const [TABLES, PLAYS, REFUSALS, MALFORMED, VALUES] = ["tables", "plays", "refusals", "malformed", "values"].map(load);
const OPEN = { max_epsilon: 1e6, max_exposure: null, min_k: 1, max_delta: 1, allow_no_crowd: true, allow_simulation: true, min_side: [] };
const emptyPlan = (task) => readPlan(pack(["plan", task.id, []]));

/** The value as the protocol has it: JSON knows no integers and no bytes. */
function packed(value, name) {
  const floats = ["lower", "upper", "epsilon", "scale", "delta", "tau", "quorum", "min_side", "edges", "max_visitors"];
  if (Array.isArray(value)) return value.map((item) => packed(item, name));
  if (value !== null && typeof value === "object") return new Map(Object.entries(value).map(([key, item]) => [key, packed(item, key)]));
  if (name === "server_key") return unhex(value);
  return typeof value === "number" && !floats.includes(name) ? BigInt(value) : value;
}

const taskOf = (fields) => readTask(pack(packed(fields)));

function refuses(act, token) {
  assert.throws(act, (error) => error instanceof ServerViolation && error.token === token, token);
}

test("numbers have the bytes of the specification", () => {
  for (const [text, data] of TABLES.integers) assert.equal(hex(pack(BigInt(text))), data);
  for (const [value, data] of TABLES.floats) assert.equal(hex(pack(value)), data);
  for (const [text, data] of TABLES.integers) assert.equal(unpack(unhex(data)), BigInt(text));
});

for (const [i, entry] of TABLES.cells.entries()) {
  test(`cells ${i}`, () => {
    const tree = new Tree(entry.hierarchy);
    assert.equal(tree.tickBits, entry.tick_bits);
    entry.points.forEach((point, row) => {
      const ticks = tree.ticks(point);
      const code = tree.code(ticks);
      assert.deepEqual(ticks.map(String), entry.ticks[row].map(String));
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

for (const [i, entry] of TABLES.trees.entries()) {
  test(`trees that are no boxes ${i}`, () => {
    const tree = treeOf(entry.hierarchy);
    entry.points.forEach((point, row) => {
      const code = tree.codeOf(point);
      assert.equal(String(code), entry.codes[row]);
      tree.middle(code).forEach((x, axis) => assert.ok(Math.abs(x - entry.middles[row][axis]) < 1e-8));
      entry.cells.forEach((cells, depth) => {
        const cell = BigInt(cells[row]);
        assert.equal(tree.ancestor(code, depth), cell);
        assert.equal(tree.child(code, depth), entry.children[depth][row]);
        assert.equal(tree.width(cell), entry.fanouts[depth][row]);
        assert.ok(tree.hasDepth(cell, depth) && !tree.hasDepth(cell, depth + 1));
        if (depth) assert.equal(tree.childCell(BigInt(entry.cells[depth - 1][row]), entry.children[depth - 1][row]), cell);
        const { lower, upper } = tree.corners(cell);
        assert.ok(point.every((x, axis) => lower[axis] <= x && x <= upper[axis]));
      });
      assert.deepEqual(tree.sides(BigInt(entry.cells.at(-1)[row])), entry.sides[row]);
    });
    for (const { cell, kept, codes } of entry.moves) {
      const depth = entry.cells.findIndex((_, place) => tree.hasDepth(BigInt(cell), place));
      assert.deepEqual(entry.words.map((word) => String(tree.move(BigInt(cell), depth, kept, BigInt(word)))), codes);
    }
  });
}

for (const [i, entry] of TABLES.moves.entries()) {
  test(`moves ${i}`, () => {
    const tree = new Tree(entry.hierarchy);
    const cell = BigInt(entry.cell);
    const depth = (cell.toString(2).length - 1) / tree.levelBits;
    const codes = entry.words.map((word) => tree.move(cell, depth, entry.kept, BigInt(word)));
    assert.deepEqual(codes.map(String), entry.codes);
    assert.deepEqual(codes.map((code) => tree.middle(code)), entry.positions);
  });
}

test("weights", () => {
  for (const entry of TABLES.response_weights) {
    const found = responseWeights(entry.epsilon, entry.fanout);
    assert.deepEqual([String(found.true), String(found.other)], [entry.true, entry.other]);
  }
  for (const entry of TABLES.laplace_weights) {
    const { edge, weights } = laplaceNoise(entry.epsilon);
    assert.equal(-edge, entry.smallest);
    assert.deepEqual(weights.map(String), entry.weights);
  }
});

test("names and entropy", () => {
  const { secret, task, pseudonym, derive, reports } = TABLES.entropy;
  assert.equal(hex(keys.pseudonym(unhex(secret), unhex(task))), pseudonym);
  for (const [label, length, derived] of derive) assert.equal(hex(keys.derive(unhex(secret), unhex(label), length)), derived);
  const join = (words) => words.map((word) => word.toString(16).padStart(16, "0")).join("");
  for (const row of reports) {
    assert.equal(join(keys.reportWords(unhex(secret), unhex(task), row.round, BigInt(row.cell), row.words)), row.entropy);
  }
  for (const row of TABLES.entropy.moves) {
    assert.equal(join([keys.moveWord(unhex(secret), unhex(task), row.round, BigInt(row.cell))]), row.entropy);
  }
  const values = VALUES.entropy;
  for (const row of values.values) {
    const words = keys.valueWords(unhex(values.secret), unhex(values.task), unhex(values.plan), row.index, BigInt(row.region), row.words);
    assert.equal(join(words), row.entropy);
  }
});

for (const [i, entry] of TABLES.answers.entries()) {
  test(`answers ${i}`, () => {
    assert.deepEqual(entry.words.map((words) => respond(entry.randomizer, entry.child, words.map(BigInt))), entry.answers);
  });
}

for (const [i, entry] of TABLES.thresholds.entries()) {
  test(`thresholds ${i}`, () => {
    entry.responders.forEach((n, row) => {
      const least = entry.thresholds[row];
      const pass = (count) => passes(entry.randomizer, n, entry.k, entry.delta, count);
      if (least === null) {
        assert.equal(pass(n), false);
        return;
      }
      assert.equal(pass(least - 1), false, `${least - 1} of ${n}`);
      if (least <= n) assert.equal(pass(least), true, `${least} of ${n}`);
    });
  });
}

for (const entry of TABLES.verdicts) {
  test(`verdicts ${entry.name}`, () => {
    const task = taskOf(entry.task);
    for (const [responders, tally, trims, visitors, doubt, kept, trimmed, after, doubts] of entry.verdicts) {
      const found = verdict(task, BigInt(entry.cell ?? 1), responders, tally, { trims, visitors, doubt });
      assert.deepEqual(found, { kept, trimmed, visitors: after, doubt: doubts }); // to the last bit
    }
  });
}

for (const entry of PLAYS.plays) {
  test(`play ${entry.name}`, () => {
    const task = readTask(unhex(entry.bytes));
    assert.equal(hex(task.id), entry.id);
    assert.equal(hex(pack(packed(entry.task))), entry.bytes);
    replay(entry, task, emptyPlan(task));
  });
}

test("a device that an earlier version left behind a TRIM says so and accuses nobody", () => {
  const entry = PLAYS.plays.find(({ name }) => name === "trim-binary-2d");
  const task = readTask(unhex(entry.bytes));
  const { point, secret } = entry.participants[0];
  const device = new Participant(task, point, unhex(secret), OPEN, emptyPlan(task));
  const [first, second] = entry.rounds.map(({ query, closed }) => [query, closed].map((data) => readServerMessage(unhex(data))));
  [...first, second[0]].forEach((message) => device.receive(message));
  assert.ok(device.state.trims === 1 && device.state.doubt > 0);
  const { doubt, ...state } = device.state;
  const old = new Participant(task, point, unhex(secret), OPEN, emptyPlan(task), { kept: { state, released: device.released } });
  assert.throws(() => old.receive(second[1]), (error) => error instanceof InvalidInput && error.message.includes("page was updated"));
  assert.equal(old.state, state);
});

for (const entry of VALUES.plays) {
  test(`play ${entry.name}`, () => {
    const plan = readPlan(unhex(entry.bytes));
    assert.equal(hex(plan.digest), entry.digest);
    replay(entry, taskOf(entry.task), plan);
  });
}

/** Every report of a play, byte by byte, and every region, crowd and number of moves. */
function replay(entry, task, plan) {
  const people = entry.participants.map((person) => new Participant(task, person.point, unhex(person.secret), OPEN, plan, { value: person.value }));
  for (const played of entry.rounds) {
    const missing = entry.missing[String(played.round)] ?? [];
    const there = people.map((person, i) => ({ person, i })).filter(({ i }) => !missing.includes(i));
    const query = readServerMessage(unhex(played.query));
    const reports = there.map(({ person, i }) => [i, person.receive(query)]).filter(([, report]) => report !== null);
    const again = there.map(({ person, i }) => [i, person.receive(query)]).filter(([, report]) => report !== null);
    assert.deepEqual(again, reports);
    const listed = Object.fromEntries(played.reports.map(([i, , , data]) => [i, data]));
    assert.deepEqual(Object.fromEntries(reports.map(([i, report]) => [i, hex(report)])), listed);
    const closed = readServerMessage(unhex(played.closed));
    people.forEach((person, i) => (closed.type === "closed" || !missing.includes(i)) && person.receive(closed));
  }
  people.forEach((person, i) => {
    const { region, crowd, moves } = entry.participants[i];
    assert.equal(person.region === null ? null : Number(person.region), region);
    assert.equal(person.state.moves, moves);
    if (crowd !== undefined) assert.equal(person.state.crowd, crowd);
  });
}

for (const entry of REFUSALS.joining) {
  test(`joining: ${entry.name}`, () => {
    const task = readTask(unhex(REFUSALS.tasks[entry.task].bytes));
    const point = Array(task.tree.axes).fill(0.5);
    refuses(() => new Participant(task, point, new Uint8Array(32), entry.policy, emptyPlan(task)), entry.token);
    assert.equal(new Participant(task, point, new Uint8Array(32), OPEN, emptyPlan(task)).state.phase, "waiting");
  });
}

for (const entry of VALUES.joining) {
  test(`joining with a plan: ${entry.name}`, () => {
    const task = readTask(unhex(VALUES.tasks[entry.task].bytes));
    refuses(() => new Participant(task, [0.5], new Uint8Array(32), entry.policy, readPlan(unhex(entry.plan))), entry.token);
    const legal = readPlan(unhex(VALUES.plan[entry.task]));
    assert.equal(new Participant(task, [0.5], new Uint8Array(32), OPEN, legal).state.phase, "waiting");
  });
}

for (const [file, entry] of [...REFUSALS.messages.map((row) => [REFUSALS, row]), ...VALUES.messages.map((row) => [VALUES, row])]) {
  test(`refused and goes on: ${entry.name}`, () => {
    const task = readTask(unhex(file.tasks[entry.task].bytes));
    const plan = file === VALUES ? readPlan(unhex(VALUES.plan[entry.task])) : emptyPlan(task);
    const device = new Participant(task, entry.point, unhex(entry.secret), entry.policy, plan);
    for (const data of entry.history) device.receive(readServerMessage(unhex(data)));
    const before = structuredClone([device.state, device.released]);
    for (let i = 0; i < 2; i++) {
      refuses(() => device.receive(readServerMessage(unhex(entry.message))), entry.token);
      assert.deepEqual([device.state, device.released], before);
    }
    const report = device.receive(readServerMessage(unhex(entry.then)));
    assert.equal(report === null ? null : hex(report), entry.report);
    if (entry.phase !== undefined) assert.equal(device.state.phase, entry.phase);
  });
}

/** Read bytes as one kind of message. */
function read(kind, data) {
  return kind === "task" ? readTask(data) : kind === "plan" ? readPlan(data) : readMessage(data, kind);
}

for (const entry of [...MALFORMED.malformed, ...VALUES.malformed]) {
  test(`malformed: ${entry.name}`, () => {
    assert.throws(() => read(entry.kind, unhex(entry.bytes)), InvalidInput, entry.why);
  });
}

test("the good messages are read", () => {
  for (const [kind, data] of [...Object.entries(MALFORMED.good), ...Object.entries(VALUES.good)]) assert.ok(read(kind, unhex(data)), kind);
});

test("merkle roots are not the device's business, but their hash is", async () => {
  const { sha256 } = await import("../../src/semilocal/page/static/device/sha256.js");
  const root = (entries) => {
    if (!entries.length) return sha256(new Uint8Array(0));
    if (entries.length === 1) return sha256(Uint8Array.of(0, ...entries[0]));
    let split = 1;
    while (split * 2 < entries.length) split *= 2;
    return sha256(Uint8Array.of(1, ...root(entries.slice(0, split)), ...root(entries.slice(split))));
  };
  for (const entry of TABLES.merkle) assert.equal(hex(root(entry.entries.map(unhex))), entry.root);
});

for (const [i, entry] of VALUES.scaled.entries()) {
  test(`scaled values ${i}`, () => {
    const tree = new Tree(entry.hierarchy);
    const region = BigInt(entry.region);
    const box = tree.corners(region);
    for (const { function: name, parameters, range, values, scaled } of entry.functions) {
      const exact = name !== "gaussian_bump"; // e^x may differ in the last place
      const same = (got, listed) => (exact ? assert.equal(got, listed) : assert.ok(Math.abs(got - listed) <= 1e-12 * Math.abs(listed) + 1e-15));
      functionRange(name, parameters, box).forEach((bound, side) => same(bound, range[side]));
      entry.points.forEach((x, row) => {
        same(functionValue(name, parameters, x), values[row]);
        same(scaledValue({ function: name, parameters }, x, box), scaled[row]);
      });
    }
  });
}

test("own values are scaled or refused", () => {
  const { task, plan, values, scaled, refused } = VALUES.own;
  const pinned = [readTask(unhex(task)), readPlan(unhex(plan))];
  const box = pinned[0].tree.corners(1n);
  values.forEach((value, row) => {
    assert.equal(scaledValue(pinned[1].releases[0], [0.3], box, value), scaled[row]);
    assert.equal(new Participant(pinned[0], [0.3], new Uint8Array(32), OPEN, pinned[1], { value }).state.phase, "waiting");
  });
  for (const row of refused) {
    const act = () => new Participant(pinned[0], [0.3], new Uint8Array(32), OPEN, readPlan(unhex(row.plan)), { value: row.value });
    assert.throws(act, InvalidInput, row.name);
  }
  assert.throws(() => new Participant(pinned[0], [0.3], new Uint8Array(32), OPEN, pinned[1], { value: NaN }), InvalidInput);
});

for (const [i, entry] of VALUES.mechanisms.entries()) {
  test(`mechanism ${i} ${entry.mechanism.type}`, () => {
    for (const [step, words, listed] of entry.outputs) assert.equal(outputOf(entry.mechanism, step / 2 ** 20, words.map(BigInt)), listed);
  });
}

test("words are read most significant byte first", () => {
  assert.equal(fromBigEndian(unhex("0102")), 258n);
});
