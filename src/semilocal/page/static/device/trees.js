// The hierarchies that a task can name, and what all of them share (spec/protocol.md, section 4). Knows cells. Knows no
// participants and no noise.

import { Tree } from "#device/hierarchy.js";
import { Sphere } from "#device/sphere.js";
import { Table } from "#device/table.js";

/** @typedef {import("#device/hierarchy.js").Fields} BoxFields */
/** @typedef {{kind: "sphere", max_depth: number}} SphereFields */
/** @typedef {{kind: "table", name: string, edges: number[], widths: number[][], labels: string[][]}} TableFields */
/** @typedef {BoxFields | SphereFields | TableFields} HierarchyFields */
/** @typedef {Tree | Sphere | Table} AnyTree */

/** The tree that fields describe; those that fit no tree are refused. @param {HierarchyFields} fields @returns {AnyTree} */
export function treeOf(fields) {
  if (fields.kind === "sphere") return new Sphere(fields);
  if (fields.kind === "table") return new Table(fields);
  return new Tree(fields);
}
