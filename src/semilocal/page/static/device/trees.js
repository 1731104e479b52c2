// The hierarchies that a browser takes (spec/protocol.md, section 4): halves of a box along a Hilbert curve, a table of named
// cells. Knows geometry and cells. Knows no participants and no noise.

import { check, InvalidInput, spacing } from "#device/base.js";

/** @typedef {{lower: number[], upper: number[], names: string[]}} Box */

const LONGITUDE = ["lon", "lng", "long", "longitude"];
const LATITUDE = ["lat", "latitude"];
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/u;

/** Whether a text shows all that it holds, and is not too long. @param {string} name @param {number} most characters */
export const isVisible = (name, most) => name !== "" && [...name].length <= most && !INVISIBLE.test(name);

/** A tree of cells over a box; what the kinds of tree have in common. */
class Hierarchy {
  /** @param {Box} box */
  constructor(box) {
    this.box = checkedBox(box);
    this.axes = box.lower.length;
    /** @type {string[]} what the deepest cells are called, in their order; empty if they have no names */
    this.leafNames = [];
    const names = box.names.map((name) => name.toLowerCase());
    const places = names.length === 2 && names.some((name) => LONGITUDE.includes(name));
    this.latitudeAxis = places ? names.findIndex((name) => LATITUDE.includes(name)) : -1; // -1: the axes are no degrees
    this.isGeographic = this.latitudeAxis >= 0;
  }

  /** Whether a position has one number per axis, inside the domain. @param {number[]} point */
  holds(point) {
    return point.length === this.axes && point.every((x, axis) => this.box.lower[axis] <= x && x <= this.box.upper[axis]);
  }

  /** Whether no side of a cell is too short. @this {AnyTree} @param {bigint} cell @param {number[]} least none, one for all axes, or one per axis */
  isLongEnough(cell, least) {
    return !least.length || this.sides(cell).every((side, axis) => side >= (least[axis] ?? least[0]) * (1 - 1e-9));
  }

  /** Whether no child of a cell is too short. @this {AnyTree} @param {bigint} cell @param {number[]} least */
  hasLongEnoughChildren(cell, least) {
    return this.children(cell).every((child) => this.isLongEnough(child, least));
  }

  /** The first code of all, and the code after the last. @this {AnyTree} @returns {[bigint, bigint]} */
  get ends() {
    return this.interval(1n);
  }

  /** The fewest cells that an interval [lower, upper) of codes consists of, along the curve. @this {AnyTree} @param {bigint} lower @param {bigint} upper @param {bigint} [cell] look no further than in this one @returns {bigint[]} */
  intervalCells(lower, upper, cell = 1n) {
    const [first, after] = this.interval(cell);
    if (lower <= first && after <= upper) return [cell];
    if (after <= lower || upper <= first) return [];
    return this.children(cell).flatMap((child) => this.intervalCells(lower, upper, child));
  }

  /** The cell with the most codes inside an interval, the first of several. @this {AnyTree} @param {bigint} lower @param {bigint} upper */
  largestCell(lower, upper) {
    const size = (/** @type {bigint} */ cell) => this.interval(cell)[1] - this.interval(cell)[0];
    return this.intervalCells(lower, upper).reduce((best, cell) => (size(cell) > size(best) ? cell : best));
  }
}

/** @param {Box} box */
function checkedBox(box) {
  const { lower, upper, names } = box;
  check(lower.length >= 1 && lower.length <= 8 && upper.length === lower.length && names.length === lower.length, "a box has 1 to 8 axes");
  check(new Set(names).size === names.length && names.every((name) => isVisible(name, 200)), "axes have different visible names");
  check(lower.every((low, axis) => low < upper[axis] && Number.isFinite(low) && Number.isFinite(upper[axis] - low)), "an axis needs finite lower < upper");
  return box;
}

const KILOMETRES_PER_DEGREE = 111.32;

/** Halves of a box along a Hilbert curve; a code is the path from the root. */
export class Tree extends Hierarchy {
  /** @param {{box: Box, max_depth: number}} fields */
  constructor({ box, max_depth }) {
    super(box);
    this.maxDepth = max_depth;
    this.tickBits = Math.ceil(max_depth / this.axes);
    this.ticksPerAxis = 2 ** this.tickBits;
    for (let axis = 0; axis < this.axes; axis++) {
      const [low, high] = [box.lower[axis], box.upper[axis]];
      const narrowest = (high - low) / this.ticksPerAxis;
      check(narrowest >= 4 * spacing(Math.max(Math.abs(low), Math.abs(high))), `axis ${box.names[axis]} has too many slices for doubles`);
    }
  }

  /** @param {bigint} cell */
  children(cell) {
    return [2n * cell, 2n * cell + 1n];
  }

  /** @param {bigint} cell @returns {[bigint, bigint]} */
  interval(cell) {
    const below = BigInt(this.maxDepth - (cell.toString(2).length - 1));
    return [cell << below, (cell + 1n) << below];
  }

  /** Lower edge of a slice, or the end of the domain. @param {number} axis @param {number} tick */
  edge(axis, tick) {
    const [low, high] = [this.box.lower[axis], this.box.upper[axis]];
    return tick === this.ticksPerAxis ? high : low + (high - low) * (tick / this.ticksPerAxis);
  }

  /** Slice numbers of a position, by bisection on the edges. @param {number[]} point */
  ticks(point) {
    if (!this.holds(point)) {
      throw new InvalidInput(`the position must have ${this.axes} numbers inside the domain; it is never clipped`);
    }
    return point.map((x, axis) => {
      let [low, high] = [0, this.ticksPerAxis];
      while (high - low > 1) {
        const middle = Math.floor((low + high) / 2);
        if (this.edge(axis, middle) <= x) low = middle;
        else high = middle;
      }
      return low;
    });
  }

  /** The deepest cell. @param {number[]} ticks @returns {bigint} */
  code(ticks) {
    const curve = new Curve(this.axes);
    let code = 1n;
    for (let step = 0; step < this.maxDepth; step++) {
      const shift = this.tickBits - 1 - Math.floor(step / this.axes);
      const upper = Number((BigInt(ticks[curve.axis]) >> BigInt(shift)) & 1n);
      code = (code << 1n) | BigInt(curve.enter(upper));
    }
    return code;
  }

  /** The deepest cell of a position. @param {number[]} point @returns {bigint} */
  codeOf(point) {
    return this.code(this.ticks(point));
  }

  /** The corners of a cell. @param {bigint} cell @returns {{lower: number[], upper: number[]}} */
  corners(cell) {
    const curve = new Curve(this.axes);
    const starts = Array(this.axes).fill(0);
    const sizes = Array(this.axes).fill(this.ticksPerAxis);
    for (const bit of cell.toString(2).slice(1)) {
      const { axis } = curve;
      sizes[axis] /= 2;
      starts[axis] += curve.follow(Number(bit)) * sizes[axis];
    }
    return { lower: starts.map((tick, axis) => this.edge(axis, tick)), upper: starts.map((tick, axis) => this.edge(axis, tick + sizes[axis])) };
  }

  /** The lengths of a cell's sides: in kilometres where the axes are degrees, else in their units. @param {bigint} cell */
  sides(cell) {
    const { lower, upper } = this.corners(cell);
    return this.lengths(lower, upper);
  }

  /** Lengths of a box's sides. @param {number[]} lower @param {number[]} upper */
  lengths(lower, upper) {
    const found = upper.map((high, axis) => high - lower[axis]);
    const latitude = this.latitudeAxis;
    if (latitude < 0) return found;
    const middle = (lower[latitude] + upper[latitude]) / 2;
    return found.map((side, axis) => side * KILOMETRES_PER_DEGREE * (axis === latitude ? 1 : Math.cos((middle * Math.PI) / 180)));
  }

  /** Shortest sides of the deepest cells: longitude is shortest at an end of the domain. */
  get smallestSides() {
    const widths = this.box.lower.map((_, axis) => (axis < this.maxDepth ? 1 : 2)); // the first level is alike in all cells
    const [first, last] = [0, 1].map((end) => {
      const ticks = widths.map((width) => end * (this.ticksPerAxis - width));
      return this.lengths(ticks.map((tick, axis) => this.edge(axis, tick)), ticks.map((tick, axis) => this.edge(axis, tick + widths[axis])));
    });
    return first.map((side, axis) => Math.min(side, last[axis]));
  }
}

/** A walk down the Hilbert curve, one halving at a time. */
class Curve {
  /** @param {number} axes */
  constructor(axes) {
    this.axes = axes;
    this.first = 0; // the axis that is halved first on this level
    this.flips = Array(axes).fill(0); // 1 for axes on which the curve runs downwards
    this.part = 0; // the bits of the path on this level
    this.step = 0;
  }

  /** The axis that is halved next. */
  get axis() {
    return (this.first + this.step) % this.axes;
  }

  /** Go into the lower (0) or upper (1) half; the bit of the path is returned. @param {number} upper */
  enter(upper) {
    const bit = upper ^ this.flips[this.axis] ^ (this.part & 1);
    this.follow(bit);
    return bit;
  }

  /** Go into the first (0) or second (1) half on the curve; 1 is returned if it is the upper one. @param {number} bit */
  follow(bit) {
    const upper = bit ^ this.flips[this.axis] ^ (this.part & 1);
    this.part = 2 * this.part + bit;
    this.step += 1;
    if (this.step === this.axes) this.#turn();
    return upper;
  }

  #turn() {
    const even = Math.max(this.part - 1, 0) & ~1;
    const gray = even ^ (even >> 1);
    let ones = 0;
    for (let odd = this.part && (this.part - 1) | 1; odd & 1; odd >>= 1) ones += 1;
    for (let step = 0; step < this.axes; step++) this.flips[(this.first + step) % this.axes] ^= (gray >> (this.axes - 1 - step)) & 1;
    this.first = (this.first + this.axes - 1 - (ones % this.axes)) % this.axes;
    this.part = this.step = 0;
  }
}

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
    this.leafNames = labels[widths.length] ?? [];
    /** @type {number[][]} first leaf of every cell, level by level, and one more */
    this.firsts = [Array.from({ length: leaves + 1 }, (_, leaf) => leaf)];
    /** @type {number[][]} first child of every cell in its level */
    this.firstChild = widths.map((row) => starts(row));
    for (const row of [...this.firstChild].reverse()) this.firsts.unshift(row.map((child) => this.firsts[0][child]));
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

  /** @param {bigint} cell */
  children(cell) {
    const [depth, index] = this.place(cell);
    const first = this.starts[depth + 1] + this.firstChild[depth][index];
    return Array.from({ length: this.widths[depth][index] }, (_, child) => BigInt(first + child));
  }

  /** First leaf of a cell, and the leaf after its last. @param {bigint} cell @returns {[bigint, bigint]} */
  interval(cell) {
    const [depth, index] = this.place(cell);
    return [BigInt(this.firsts[depth][index]), BigInt(this.firsts[depth][index + 1])];
  }

  /** The ends of a cell. @param {bigint} cell @returns {{lower: number[], upper: number[]}} */
  corners(cell) {
    const [first, after] = this.interval(cell);
    return { lower: [this.edges[Number(first)]], upper: [this.edges[Number(after)]] };
  }

  /** The position that stands for a leaf. @param {bigint} code */
  middle(code) {
    const [low, high] = [this.edges[Number(code)], this.edges[Number(code) + 1]];
    return [low + (high - low) * 0.5];
  }

  /** @param {bigint} cell */
  sides(cell) {
    const { lower, upper } = this.corners(cell);
    return [upper[0] - lower[0]];
  }

  /** The length of the shortest leaf. */
  get smallestSides() {
    return [Math.min(...this.edges.slice(1).map((edge, leaf) => edge - this.edges[leaf]))];
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
function checkLabels({ labels, firsts, widths, firstChild, edges }) {
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
      const goesOn = parent >= 0 && widths[depth - 1][parent] === 1 && row[firstChild[depth - 1][parent]] === label;
      check(!seen.has(label) || goesOn, `the label ${label} names two cells`);
    }
    row.forEach((label) => seen.add(label));
  });
}

/** @typedef {ReturnType<typeof import("#device/task.js").readHierarchy>} Fields */
/** @typedef {Tree | Table} AnyTree */

/** The tree that fields describe; those that fit no tree are refused. @param {Fields} fields @returns {AnyTree} */
export const treeOf = (fields) => (fields.kind === "table" ? new Table(fields) : new Tree(fields));

/** A region in words: its labels if it has some, else the box around it. @param {AnyTree} tree @param {[bigint, bigint]} region */
export function placeWords(tree, region) {
  const cells = tree.intervalCells(...region);
  const names = tree instanceof Table ? cells.map((cell) => tree.nameOf(cell)) : [""];
  if (names[0]) return names.length > 3 ? `${names[0]} to ${names[names.length - 1]}` : names.join(", ");
  const boxes = cells.map((cell) => tree.corners(cell));
  return tree.box.names.map((name, axis) => {
    const [low, high] = [Math.min(...boxes.map(({ lower }) => lower[axis])), Math.max(...boxes.map(({ upper }) => upper[axis]))];
    const digits = Math.min(20, Math.max(0, Math.ceil(2 - Math.log10(high - low)))); // hundredths of the side
    return `${name} ${Number(low.toFixed(digits))} to ${Number(high.toFixed(digits))}`;
  }).join(", ");
}
