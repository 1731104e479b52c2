// Answers about hierarchies for a test in Python: reads cases as JSON, writes what the device of the page finds.

import { readFileSync } from "node:fs";
import { Tree } from "../../src/semilocal/page/static/device/trees.js";

const found = JSON.parse(readFileSync(0, "utf8")).map(({ hierarchy, points, cells, intervals }) => {
  const tree = new Tree(hierarchy);
  const pairs = intervals.map((ends) => ends.map(BigInt));
  return {
    ends: tree.ends.map(String),
    codes: points.map((point) => String(tree.codeOf(point))),
    boxes: cells.map(BigInt).map((cell) => [tree.corners(cell).lower, tree.corners(cell).upper]),
    sides: cells.map(BigInt).map((cell) => tree.sides(cell)),
    smallest: tree.smallestSides,
    intervals: pairs.map(([lower, upper]) => tree.intervalCells(lower, upper).map(String)),
    largest: pairs.map(([lower, upper]) => String(tree.largestCell(lower, upper))),
    lengths: pairs.map(([lower, upper]) => tree.sides(tree.largestCell(lower, upper))),
  };
});
process.stdout.write(JSON.stringify(found));
