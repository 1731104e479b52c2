// The task: everything public about one collection, pinned by its id (spec/protocol.md, section 5). Knows parameters.
// Knows no state of a run.

import { check } from "#device/errors.js";
import { bytes, float, integer, isPrintable, list, map, oneOf, text } from "#device/fields.js";
import { unpack } from "#device/msgpack.js";
import { checkRandomizer, epsilonOf } from "#device/noise.js";
import { sha256 } from "#device/sha256.js";
import { treeOf } from "#device/trees.js";

/** @typedef {import("#device/msgpack.js").Value} Value */
/** @typedef {ReturnType<typeof readFields>} Fields */
/** @typedef {Fields & {id: Uint8Array, bytes: Uint8Array, tree: import("#device/trees.js").AnyTree}} Task */

const readBoxTree = map({
  kind: oneOf("binary", "quad"),
  box: map({ lower: list(float), upper: list(float), names: list(text) }),
  max_depth: integer(1, 60),
});
const readSphere = map({ kind: oneOf("sphere"), max_depth: integer(4, 52) });
const readTable = map({
  kind: oneOf("table"), name: text, edges: list(float, 20001), widths: list(list(integer(1, 256)), 40), labels: list(list(text), 41),
});

/** The fields of any hierarchy. @param {Value} value @returns {import("#device/trees.js").HierarchyFields} */
export function readHierarchy(value) {
  const kind = value instanceof Map ? value.get("kind") : null;
  return kind === "sphere" ? readSphere(value) : kind === "table" ? readTable(value) : readBoxTree(value);
}

const readNoise = map({ kind: oneOf("randomized-response", "discrete-laplace"), epsilon: float, fanout: integer(2, 256) });
const readPaper = map({ kind: oneOf("paper-laplace"), scale: float, fanout: integer(2, 256), margin: oneOf("chernoff", "paper") });

/** @param {Value} value @returns {import("#device/noise.js").Fields} */
function readRandomizer(value) {
  const paper = value instanceof Map && value.get("kind") === "paper-laplace";
  const fields = paper ? readPaper(value) : readNoise(value);
  checkRandomizer(fields);
  return fields;
}

const readFields = map({
  type: oneOf("task"),
  hierarchy: readHierarchy,
  randomizer: readRandomizer,
  rule: oneOf("cut", "all"),
  k: integer(1, 2 ** 20),
  delta: float,
  answers: integer(1, 64),
  max_rounds: integer(1, 1000),
  quorum: float,
  window: integer(1, 10 ** 8),
  tolerate_liars: integer(0, 2 ** 20),
  server_key: bytes(0, 32),
  min_side: list(float),
  label: text,
  chain: bytes(0, 32),
});

/** The task in canonical bytes; anything else is refused. @param {Uint8Array} data @returns {Task} */
export function readTask(data) {
  const fields = readFields(unpack(data));
  const { randomizer, rule } = fields;
  const tree = treeOf(fields.hierarchy);
  if (rule === "cut") check(randomizer.kind === "randomized-response" && randomizer.fanout === 2, "rule cut asks for one of two sides");
  else {
    check(randomizer.fanout === tree.fanout, `cells have ${tree.fanout} children, but the randomizer answers for ${randomizer.fanout}`);
    check(tree.hasOneFanout || randomizer.kind === "randomized-response", "cells with different numbers of children take randomized response");
    check(fields.answers === 1, "rule all takes one answer");
  }
  check(fields.delta >= 1e-15 && fields.delta < 0.5, `delta is from 1e-15 to below 0.5; got ${fields.delta}`);
  check(fields.quorum > 0 && fields.quorum <= 1, `quorum is above 0 and at most 1; got ${fields.quorum}`);
  check(!fields.tolerate_liars || randomizer.kind === "randomized-response", "tolerate_liars needs randomized response");
  const least = fields.min_side;
  check(least.length === 0 || ([1, tree.axes].includes(least.length) && least.every((side) => side > 0)), `min_side is empty, or has 1 or ${tree.axes} lengths`);
  check(tree.hasLongEnoughChildren(1n, least), "min_side leaves no split of the domain");
  check([...fields.label].length <= 64 && isPrintable(fields.label), "a label has at most 64 printable characters");
  return { ...fields, id: sha256(data), bytes: data, tree };
}

/** The loss between any two positions inside a region, both ways (delta = 0). @param {Task} task */
export const epsilonOfTask = (task) => task.answers * epsilonOf(task.randomizer);

/** Whether a crowd of k is promised at all. @param {Task} task */
export const keepsCrowd = (task) => task.randomizer.margin !== "paper";
