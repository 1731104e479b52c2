// A public tree given as a table (spec/protocol.md, section 4.3): edges of leaves on one axis, and how many children
// every cell has. Knows numbers and labels. Knows no participants and no noise.

import { Hierarchy, isVisible } from "#device/cells.js";
import { InvalidInput, check } from "#device/errors.js";

const MOST_LEAVES = 20000;

export class Table extends Hierarchy {
  /** @param {{name: string, edges: number[], widths: number[][], labels: string[][]}} fields */
  constructor({ name, edges, widths, labels }) {
    const leaves = edges.length - 1;
    check(leaves >= 2 && leaves <= MOST_LEAVES, `a table has 2 to ${MOST_LEAVES} leaves; got ${leaves}`);
    check(edges.every((edge, i) => i === 0 || edges[i - 1] < edge), "edges must ascend");
    super({ lower: [edges[0]], upper: [edges[leaves]], names: [name] });
    check(widths.length >= 1 && widths.length <= 40, `a table has 1 to 40 levels; got ${widths.length}`);
    let size = 1;
    for (const row of widths) {
      check(row.length === size, `a level has ${size} cells; got ${row.length} widths`);
      size = row.reduce((sum, width) => sum + width, 0);
    }
    check(size === leaves, `the deepest level has ${size} cells, but there are ${leaves} leaves`);
    this.edges = edges;
    this.widths = widths;
    this.labels = labels;
    this.maxDepth = widths.length;
    this.fanout = Math.max(...widths.map((row) => Math.max(...row)));
    check(this.fanout >= 2, "no cell of the table has two children");
    this.hasOneFanout = false;
    /** @type {number[][]} first leaf of every cell, level by level, and one more */
    this.firsts = [Array.from({ length: leaves + 1 }, (_, leaf) => leaf)];
    /** @type {number[][]} first child of every cell in its level */
    this.children = widths.map((row) => starts(row));
    for (const row of [...this.children].reverse()) this.firsts.unshift(row.map((child) => this.firsts[0][child]));
    this.starts = starts(this.firsts.map((row) => row.length - 1)).map((start) => start + 1);
    checkLabels(this);
  }

  /** The leaf of a position. @param {number[]} point @returns {bigint} */
  codeOf(point) {
    if (!this.holds(point)) throw new InvalidInput("the position must be one number inside the domain; it is never clipped");
    return BigInt(this.edges.slice(1, -1).filter((edge) => edge <= point[0]).length);
  }

  /** Depth, and index in the level. @param {bigint} cell @returns {[number, number]} */
  place(cell) {
    const number = Number(cell);
    const depth = this.starts.findIndex((start, i) => start <= number && number < (this.starts[i + 1] ?? 0));
    if (depth < 0) throw new InvalidInput(`${cell} is not a cell of the table`);
    return [depth, number - this.starts[depth]];
  }

  /** Index in the level of a depth of the cell that holds a leaf. @param {bigint} code @param {number} depth */
  indexOf(code, depth) {
    const row = this.firsts[depth];
    return row.findIndex((first, i) => first <= Number(code) && Number(code) < (row[i + 1] ?? 0));
  }

  /** The cell of a depth that holds a leaf. @param {bigint} code @param {number} depth */
  ancestor(code, depth) {
    return BigInt(this.starts[depth] + this.indexOf(code, depth));
  }

  /** @override @param {bigint} cell */
  width(cell) {
    const [depth, index] = this.place(cell);
    return depth === this.maxDepth ? 0 : this.widths[depth][index];
  }

  /** @override @param {bigint} cell @param {number} child */
  childCell(cell, child) {
    const [depth, index] = this.place(cell);
    return BigInt(this.starts[depth + 1] + this.children[depth][index] + child);
  }

  /** Whether a cell has this depth. @param {bigint} cell @param {number} depth */
  hasDepth(cell, depth) {
    return depth <= this.maxDepth && BigInt(this.starts[depth]) <= cell && cell < BigInt(this.starts[depth + 1]);
  }

  /** First and last leaf. @param {bigint} cell @returns {[number, number]} */
  span(cell) {
    const [depth, index] = this.place(cell);
    return [this.firsts[depth][index], this.firsts[depth][index + 1] - 1];
  }

  /** First leaf of a cell, and the leaf after its last. @override @param {bigint} cell @returns {[bigint, bigint]} */
  interval(cell) {
    const [first, last] = this.span(cell);
    return [BigInt(first), BigInt(last + 1)];
  }

  /** The ends of a cell. @param {bigint} cell @returns {{lower: number[], upper: number[]}} */
  corners(cell) {
    const [first, last] = this.span(cell);
    return { lower: [this.edges[first]], upper: [this.edges[last + 1]] };
  }

  /** The position that stands for a leaf. @param {bigint} code */
  middle(code) {
    const [low, high] = [this.edges[Number(code)], this.edges[Number(code) + 1]];
    return [low + (high - low) * 0.5];
  }

  /** @override @param {bigint} cell */
  sides(cell) {
    const { lower, upper } = this.corners(cell);
    return [upper[0] - lower[0]];
  }

  /** The shortest cell of a depth. @param {number} depth */
  smallestSides(depth) {
    const row = this.firsts[depth];
    return [Math.min(...row.slice(0, -1).map((first, i) => this.edges[row[i + 1]] - this.edges[first]))];
  }

  /** @override @returns {string[]} */
  get leafNames() {
    return this.labels[this.maxDepth] ?? [];
  }

  /** What a cell is called; empty without labels. @param {bigint} cell */
  nameOf(cell) {
    const [depth, index] = this.place(cell);
    return this.labels[depth]?.[index] ?? "";
  }
}

/** Where the parts of each width begin, and where the last one ends. @param {number[]} widths */
function starts(widths) {
  const out = [0];
  for (const width of widths) out.push(out[out.length - 1] + width);
  return out;
}

/** @param {Table} table */
function checkLabels({ labels, firsts, widths, children, edges }) {
  if (!labels.length) return;
  check(labels.length === firsts.length && labels.every((row, depth) => row.length === firsts[depth].length - 1), "a table has one label per cell, or none");
  check(labels.every((row) => row.every((label) => isVisible(label, 80))), "a label has 1 to 80 visible characters");
  check(edges.every((edge, i) => edge === i), "a table with labels has one unit per leaf");
  const seen = new Set();
  labels.forEach((row, depth) => {
    check(new Set(row).size === row.length, "labels must differ");
    const above = depth ? labels[depth - 1] : [];
    for (const label of row) {
      const parent = above.indexOf(label);
      const goesOn = parent >= 0 && widths[depth - 1][parent] === 1 && row[children[depth - 1][parent]] === label;
      check(!seen.has(label) || goesOn, `the label ${label} names two cells`);
    }
    row.forEach((label) => seen.add(label));
  });
}
