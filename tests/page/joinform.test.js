// The limits that a person types: what they become, and what is said about limits that forbid the campaign.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { unhex } from "../../src/semilocal/page/static/device/bytes.js";
import { pack } from "../../src/semilocal/page/static/device/msgpack.js";
import { readPlan } from "../../src/semilocal/page/static/device/plan.js";
import { readTask } from "../../src/semilocal/page/static/device/task.js";

// The templates want a document when they are loaded; nothing is drawn here.
Object.assign(globalThis, { document: { createTreeWalker: () => null, createComment: () => null } });
const { JoinForm, fateOfPosition } = await import("../../src/semilocal/page/static/views/joinform.js");
const { plays } = JSON.parse(readFileSync(new URL("../../spec/vectors/plays.json", import.meta.url), "utf8"));
const PLAY = plays.find(({ name }) => name === "trim-binary-2d");

function form() {
  const made = new JoinForm({ task: readTask(unhex(PLAY.bytes)), plan: readPlan(pack(["plan", unhex(PLAY.id), []])), pair: null }, { enrolment: "open" }, () => {});
  Object.assign(made.limits, { max_epsilon: "1000", max_exposure: "1000", min_k: "1", max_delta: "0.5" });
  return made;
}

test("a position stays on the device, but for two servers, which get it in shares", () => {
  assert.equal(fateOfPosition(form().pinned.pair), "It stays on this device.");
  assert.match(fateOfPosition(/** @type {any} */ ({})), /^It leaves in two shares only/);
});

test("a shortest side is none, one for all axes, or one per axis", () => {
  for (const [text, sides] of /** @type {[string, number[]][]} */ ([["", []], [" ", []], ["0.25", [0.25]], ["0.25, 1e-3", [0.25, 0.001]]])) {
    const filled = Object.assign(form(), { minSide: text });
    assert.deepEqual(filled.policy.min_side, sides);
    assert.deepEqual(filled.reasons, []);
  }
});

test("a shortest side that is no length, or longer than the domain, is refused in words", () => {
  for (const [text, words] of [["far", /lengths of at least 0/], ["-1", /lengths of at least 0/], ["1,", /lengths/], ["1e-3,1e-3,1e-3", /one number, or one per axis/], ["1e9", /the owner names none with a side below/]]) {
    const filled = Object.assign(form(), { minSide: text, texts: ["0", "0"], consent: true });
    assert.equal(filled.reasons.length, 1);
    assert.match(filled.reasons[0], words);
    assert.equal(filled.missing.includes("limits") || filled.missing.includes("position"), true);
  }
});
