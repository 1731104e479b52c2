// The limits that a person types: what they become, and what is said about limits that forbid the campaign.

import "./document.mjs";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { pack, unpack } from "../../src/semilocal/page/static/device/wire.js";
import { readPairTask } from "../../src/semilocal/page/static/device/pair.js";
import { readPlan } from "../../src/semilocal/page/static/device/plan.js";
import { placeWords, Tree } from "../../src/semilocal/page/static/device/trees.js";
import { readTask } from "../../src/semilocal/page/static/device/task.js";
import { JoinForm } from "../../src/semilocal/page/static/views/joinform.js";
import { unhex } from "./read.mjs";

const { plays } = JSON.parse(readFileSync(new URL("../../spec/vectors/plays.json", import.meta.url), "utf8"));
const { asked } = JSON.parse(readFileSync(new URL("../../spec/vectors/sharing.json", import.meta.url), "utf8"));
const PLAY = plays.find(({ name }) => name === "cut-binary-2d-away-and-late");

function form(play = PLAY) {
  const made = new JoinForm({ task: readTask(unhex(play.bytes)), plan: readPlan(pack(["plan", unhex(play.id), []])), pair: null }, { enrolment: "open" }, () => {});
  Object.assign(made.limits, { max_epsilon: "1000", min_k: "1", max_delta: "0.5" });
  return made;
}

const limited = (limits) => {
  const filled = form();
  Object.assign(filled.limits, limits);
  return filled;
};

test("a shortest side is none, or a length", () => {
  for (const [text, sides] of [["", []], [" ", []], ["0.25", [0.25]]]) {
    assert.deepEqual(limited({ min_side: text }).policy.min_side, sides);
    assert.deepEqual(limited({ min_side: text }).reasons, []);
  }
});

test("a limit that is no number in its range, or forbids the campaign, is named", () => {
  for (const [limits, words] of [
    [{ min_side: "far" }, /Shortest side .* needs a number of at least 0/], [{ min_side: "-1" }, /of at least 0/], [{ min_side: "1e9" }, /the owner names none below/],
    [{ max_delta: "1.5" }, /^“Largest chance of no crowd \(delta\)” needs a number from 0 to 1\.$/],
    ...["", "much", "-1"].map((text) => [{ max_epsilon: text }, /^“Largest loss of all .*” needs a number of at least 0\.$/]),
  ]) {
    const filled = Object.assign(limited(limits), { texts: ["0", "0"], consent: true });
    assert.equal(filled.reasons.length, 1);
    assert.match(filled.reasons[0], words);
    assert.doesNotMatch(filled.reasons[0], /NaN/);
    assert.equal(filled.missing.includes("limits") || filled.missing.includes("position"), true);
  }
  assert.throws(() => limited({ max_delta: "1.5" }).policy, /max_delta is a chance from 0 to 1; got 1.5/);
});

test("what is said about a position is about the one that stands there", () => {
  const filled = form();
  const [x, y] = filled.tree.box.upper;
  filled.setPosition([2 * x + 1, y]);
  assert.match(filled.where, /outside the domain/);
  filled.texts = [String(x), String(y)];
  assert.equal(filled.where, `Your position: ${x}, ${y}.`);
  filled.texts = [String(x), String(2 * y + 1)];
  assert.match(filled.where, /outside the domain of this campaign: /);
  filled.tree.box.names.forEach((name, axis) => assert.ok(filled.where.includes(`${name} ${filled.tree.box.lower[axis]} to ${filled.tree.box.upper[axis]}`)));
  filled.texts = [String(x), ""];
  assert.equal(filled.where, "");
});

test("with two servers a refusal has its unit and no token, and a bucket limits what is promised", () => {
  const fields = unpack(unhex(asked[0].pair));
  delete fields.value;
  fields.bucket_depth = 2n;
  fields.pooled.hierarchy.box.names = ["longitude", "latitude"];
  const pair = readPairTask(pack(fields));
  const filled = new JoinForm({ task: null, plan: null, pair }, { enrolment: "open" }, () => {});
  assert.match(filled.reasons[0], /a browser does not do that$/);
  fields.bucket_depth = 0n;
  const unbucketed = new JoinForm({ task: null, plan: null, pair: readPairTask(pack(fields)) }, { enrolment: "open" }, () => {});
  unbucketed.limits.min_side = "500";
  assert.match(unbucketed.reasons[0], /the position to [\d.]+ x [\d.]+ km, .* nothing below 500 km$/);
});

test("the two ends of a small region differ in words", () => {
  const tree = new Tree({ box: { lower: [-124.5, 32.5], upper: [-114.1, 42.1], names: ["longitude", "latitude"] }, max_depth: 32 });
  const code = tree.codeOf([-116, 41.5]);
  assert.equal(placeWords(tree, tree.ends), "longitude -124.5 to -114.1, latitude 32.5 to 42.1");
  assert.equal(placeWords(tree, tree.interval(code >> 24n)), "longitude -116.05 to -115.4, latitude 41.5 to 42.1");
  for (let depth = 0; depth <= 32; depth++) assert.doesNotMatch(placeWords(tree, tree.interval(code >> BigInt(32 - depth))), /(\S+) to \1(,|$)/);
});
