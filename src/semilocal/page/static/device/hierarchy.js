// The tree of boxes over the domain, along a Hilbert curve (spec/protocol.md, section 4.1). Knows geometry. Knows no
// participants and no noise.

import { Hierarchy } from "#device/cells.js";
import { InvalidInput, check } from "#device/errors.js";
import { spacing } from "#device/bytes.js";

/** @typedef {import("#device/cells.js").Box} Box */
/** @typedef {{kind: "binary" | "quad", box: Box, max_depth: number}} Fields */

const KILOMETRES_PER_DEGREE = 111.32;

export class Tree extends Hierarchy {
  /** @param {Fields} fields */
  constructor({ kind, box, max_depth }) {
    super(box);
    this.kind = kind;
    this.hasOneFanout = true;
    this.maxDepth = max_depth;
    this.levelBits = kind === "binary" ? 1 : this.axes;
    this.fanout = 2 ** this.levelBits;
    this.pathBits = this.levelBits * max_depth;
    check(max_depth >= 1 && this.pathBits <= 60, `a path has 1 to 60 bits; got ${this.pathBits}`);
    this.tickBits = Math.ceil(this.pathBits / this.axes);
    for (let axis = 0; axis < this.axes; axis++) {
      const [low, high] = [box.lower[axis], box.upper[axis]];
      const narrowest = (high - low) * 2 ** -this.tickBits;
      check(narrowest >= 4 * spacing(Math.max(Math.abs(low), Math.abs(high))), `axis ${box.names[axis]} has too many slices for doubles`);
    }
  }

  /** Lower edge of a slice. @param {number} axis @param {number} tick */
  edge(axis, tick) {
    const low = this.box.lower[axis];
    return low + (this.box.upper[axis] - low) * (tick * 2 ** -this.tickBits);
  }

  /** Slice numbers of a position, by bisection on the edges. @param {number[]} point */
  ticks(point) {
    if (!this.holds(point)) {
      throw new InvalidInput(`the position must have ${this.axes} numbers inside the domain; it is never clipped`);
    }
    return point.map((x, axis) => {
      let [low, high] = [0, 2 ** this.tickBits];
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
    for (let step = 0; step < this.pathBits; step++) {
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

  /** The cell of a depth that holds a code. @param {bigint} code @param {number} depth */
  ancestor(code, depth) {
    return code >> BigInt(this.levelBits * (this.maxDepth - depth));
  }

  /** First and last tick on each axis. @param {bigint} cell @returns {[number, number][]} */
  bounds(cell) {
    const curve = new Curve(this.axes);
    const starts = Array(this.axes).fill(0);
    const sizes = Array(this.axes).fill(2 ** this.tickBits);
    for (const bit of cell.toString(2).slice(1)) {
      const { axis } = curve;
      sizes[axis] /= 2;
      starts[axis] += curve.follow(Number(bit)) * sizes[axis];
    }
    return starts.map((start, axis) => [start, start + sizes[axis] - 1]);
  }

  /** The corners of a cell. @param {bigint} cell @returns {{lower: number[], upper: number[]}} */
  corners(cell) {
    const bounds = this.bounds(cell);
    const lower = bounds.map(([first], axis) => this.edge(axis, first));
    const upper = bounds.map(([, last], axis) => (last + 1 === 2 ** this.tickBits ? this.box.upper[axis] : this.edge(axis, last + 1)));
    return { lower, upper };
  }

  /** @override @param {bigint} _ */
  width(_) {
    return this.fanout;
  }

  /** @override @param {bigint} cell @param {number} child */
  childCell(cell, child) {
    return cell * BigInt(this.fanout) + BigInt(child);
  }

  /** Whether a cell has this depth. @param {bigint} cell @param {number} depth */
  hasDepth(cell, depth) {
    return cell >> BigInt(this.levelBits * depth) === 1n;
  }

  /** First code of a cell, and the code after its last. @override @param {bigint} cell @returns {[bigint, bigint]} */
  interval(cell) {
    const below = BigInt(this.pathBits - (cell.toString(2).length - 1));
    return [cell << below, (cell + 1n) << below];
  }

  /** The lengths of a cell's sides: in kilometres where the axes are degrees, else in their units. @override @param {bigint} cell */
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

  /** Shortest sides of cells of a depth: longitude is shortest at a corner of the domain. @param {number} depth */
  smallestSides(depth) {
    const bits = this.levelBits * depth;
    const slice = 2 ** (this.tickBits - Math.ceil(bits / this.axes));
    const widths = this.box.lower.map((_, axis) => (axis < bits || !bits ? slice : 2 * slice)); // the first level is alike in all cells
    const corners = Array.from({ length: 2 ** this.axes }, (_, at) => widths.map((width, axis) => ((at >> axis) & 1 ? 2 ** this.tickBits - width : 0)));
    const end = (/** @type {number} */ tick, /** @type {number} */ axis) => (tick === 2 ** this.tickBits ? this.box.upper[axis] : this.edge(axis, tick));
    const sides = corners.map((ticks) => this.lengths(ticks.map((tick, axis) => this.edge(axis, tick)), ticks.map((tick, axis) => end(tick + widths[axis], axis))));
    return widths.map((_, axis) => Math.min(...sides.map((row) => row[axis])));
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
