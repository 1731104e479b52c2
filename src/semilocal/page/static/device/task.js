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

const MOST = 2 ** 53;

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
  rule: oneOf("all", "trim", "each"),
  k: integer(1, 2 ** 20),
  delta: float,
  max_trims: integer(0, 255),
  tau: float,
  accounting: oneOf("core", "uniform"),
  max_rounds: integer(1, MOST),
  quorum: float,
  window: integer(1, 10 ** 8),
  size_from: oneOf("responders", "estimate"),
  tolerate_liars: integer(0, 2 ** 31 - 1),
  server_key: bytes(0, 32),
  min_side: list(float),
  label: text,
  max_visitors: float,
});

/** The task in canonical bytes; anything else is refused. @param {Uint8Array} data @returns {Task} */
export function readTask(data) {
  const fields = readFields(unpack(data));
  const { randomizer, rule } = fields;
  const tree = treeOf(fields.hierarchy);
  check(randomizer.fanout === tree.fanout, `cells have ${tree.fanout} children, but the randomizer answers for ${randomizer.fanout}`);
  check(tree.hasOneFanout || randomizer.kind === "randomized-response", "cells with different numbers of children take randomized response");
  check(fields.delta >= 1e-15 && fields.delta < 0.5, `delta is from 1e-15 to below 0.5; got ${fields.delta}`);
  check(fields.tau > 0 && fields.tau < 0.5, `tau is above 0 and below 0.5; got ${fields.tau}`);
  check(fields.quorum > 0 && fields.quorum <= 1, `quorum is above 0 and at most 1; got ${fields.quorum}`);
  check(fields.max_rounds <= tree.maxDepth, `max_rounds is at most max_depth ${tree.maxDepth}; got ${fields.max_rounds}`);
  check(rule === "trim" || fields.max_trims === 0, `max_trims is 0 with rule ${rule}; got ${fields.max_trims}`);
  check(fields.max_visitors > 0 && fields.max_visitors <= 1, `max_visitors is above 0 and at most 1; got ${fields.max_visitors}`);
  check(rule === "trim" || fields.max_visitors === 1, `max_visitors is 1 with rule ${rule}; got ${fields.max_visitors}`);
  check(!fields.tolerate_liars || randomizer.kind === "randomized-response", "tolerate_liars needs randomized response");
  check(fields.size_from === "responders" || (rule === "each" && randomizer.margin === "paper"), "size_from estimate is for simulations of rule each");
  const least = fields.min_side;
  check(least.length === 0 || (rule !== "each" && [1, tree.axes].includes(least.length) && least.every((side) => side > 0)), `min_side is empty, or has 1 or ${tree.axes} lengths; rule each has none`);
  check(tree.hasLongEnoughChildren(1n, least), "min_side leaves no split of the domain");
  check([...fields.label].length <= 64 && isPrintable(fields.label), "a label has at most 64 printable characters");
  return { ...fields, id: sha256(data), bytes: data, tree };
}

/** The loss of one report, and between any two positions inside a region (delta = 0). @param {Task} task */
export const epsilonOfTask = (task) => epsilonOf(task.randomizer);

/** The most that a moved position can lose: (1 + max_trims) reports (delta = 0). @param {Task} task */
export const epsilonWorst = (task) => (1 + task.max_trims) * epsilonOf(task.randomizer);

/** Whether a crowd of k is promised at all. @param {Task} task */
export const keepsCrowd = (task) => task.rule !== "each" && task.randomizer.margin !== "paper";
