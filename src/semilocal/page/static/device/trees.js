// The hierarchy of a browser's device (spec/protocol.md, section 4): halves of a box along a Hilbert curve. Knows geometry and
// cells. Knows no participants and no noise.

import { check, spacing } from "#device/base.js";

/** @typedef {{lower: number[], upper: number[], names: string[]}} Box */

const LONGITUDE = ["lon", "lng", "long", "longitude"];
const LATITUDE = ["lat", "latitude"];
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/u;

/** Whether a text shows all that it holds, and is not too long. @param {string} name @param {number} most characters */
export const isVisible = (name, most) => name !== "" && [...name].length <= most && !INVISIBLE.test(name);

const KILOMETRES_PER_DEGREE = 111.32;

/** Halves of a box along a Hilbert curve; a code is the path from the root. */
export class Tree {
  /** @param {{box: Box, max_depth: number}} fields those that fit no tree are refused */
  constructor({ box, max_depth }) {
    const { lower, upper, names } = box;
    check(lower.length >= 1 && lower.length <= 8 && upper.length === lower.length && names.length === lower.length, "a box has 1 to 8 axes");
    check(new Set(names).size === names.length && names.every((name) => isVisible(name, 200)), "axes have different visible names");
    check(lower.every((low, axis) => low < upper[axis] && Number.isFinite(low) && Number.isFinite(upper[axis] - low)), "an axis needs finite lower < upper");
    this.box = box;
    this.axes = lower.length;
    const axisOf = (/** @type {string[]} */ words) => names.findIndex((name) => words.includes(name.toLowerCase()));
    this.latitudeAxis = names.length === 2 && axisOf(LONGITUDE) >= 0 ? axisOf(LATITUDE) : -1; // -1: the axes are no degrees
    this.isGeographic = this.latitudeAxis >= 0;
    this.maxDepth = max_depth;
    this.tickBits = Math.ceil(max_depth / this.axes);
    this.ticksPerAxis = 2 ** this.tickBits;
    lower.forEach((low, axis) => {
      const narrowest = (upper[axis] - low) / this.ticksPerAxis;
      check(narrowest >= 4 * spacing(Math.max(Math.abs(low), Math.abs(upper[axis]))), `axis ${names[axis]} has too many slices for doubles`);
    });
  }

  /** Whether no side of a cell is too short. @param {bigint} cell @param {number[]} least none, one for all axes, or one per axis */
  isLongEnough(cell, least) {
    return !least.length || this.sides(cell).every((side, axis) => side >= (least[axis] ?? least[0]) * (1 - 1e-9));
  }

  /** The first code of all, and the code after the last. @returns {[bigint, bigint]} */
  get ends() {
    return this.interval(1n);
  }

  /** The fewest cells that an interval [lower, upper) of codes consists of, along the curve. @param {bigint} lower @param {bigint} upper @param {bigint} [cell] look no further than in this one @returns {bigint[]} */
  intervalCells(lower, upper, cell = 1n) {
    const [first, after] = this.interval(cell);
    if (lower <= first && after <= upper) return [cell];
    if (after <= lower || upper <= first) return [];
    return [2n * cell, 2n * cell + 1n].flatMap((child) => this.intervalCells(lower, upper, child));
  }

  /** The cell with the most codes inside an interval, the first of several. @param {bigint} lower @param {bigint} upper */
  largestCell(lower, upper) {
    const size = (/** @type {bigint} */ cell) => this.interval(cell)[1] - this.interval(cell)[0];
    return this.intervalCells(lower, upper).reduce((best, cell) => (size(cell) > size(best) ? cell : best));
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
    const { lower, upper } = this.box;
    check(point.length === this.axes && point.every((x, axis) => lower[axis] <= x && x <= upper[axis]), `the position must have ${this.axes} numbers inside the domain; it is never clipped`);
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

  /** The deepest cell of a position. @param {number[]} point @returns {bigint} */
  codeOf(point) {
    const ticks = this.ticks(point);
    const curve = new Curve(this.axes);
    let code = 1n;
    for (let step = 0; step < this.maxDepth; step++) {
      const shift = this.tickBits - 1 - Math.floor(step / this.axes);
      const upper = Number((BigInt(ticks[curve.axis]) >> BigInt(shift)) & 1n);
      code = (code << 1n) | BigInt(curve.enter(upper));
    }
    return code;
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

/** A region in words: the box around it. @param {Tree} tree @param {[bigint, bigint]} region */
export function placeWords(tree, region) {
  const boxes = tree.intervalCells(...region).map((cell) => tree.corners(cell));
  return tree.box.names.map((name, axis) => {
    const [low, high] = [Math.min(...boxes.map(({ lower }) => lower[axis])), Math.max(...boxes.map(({ upper }) => upper[axis]))];
    const digits = Math.min(20, Math.max(0, Math.ceil(2 - Math.log10(high - low)))); // hundredths of the side
    return `${name} ${Number(low.toFixed(digits))} to ${Number(high.toFixed(digits))}`;
  }).join(", ");
}
