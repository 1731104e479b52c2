// The tree of boxes over the domain (spec/protocol.md, section 4.1). Knows geometry. Knows no participants and no noise.

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
    let code = 1n;
    for (let step = 0; step < this.pathBits; step++) {
      const shift = this.tickBits - 1 - Math.floor(step / this.axes);
      code = (code << 1n) | ((BigInt(ticks[step % this.axes]) >> BigInt(shift)) & 1n);
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
    const path = cell.toString(2).slice(1);
    return this.box.lower.map((_, axis) => {
      const fixed = [...path].filter((_, step) => step % this.axes === axis).slice(0, this.tickBits).join("");
      const [first, last] = ["0", "1"].map((fill) => Number(BigInt(`0b0${fixed.padEnd(this.tickBits, fill)}`)));
      return [first, last];
    });
  }

  /** The corners of a cell. @param {bigint} cell @returns {{lower: number[], upper: number[]}} */
  corners(cell) {
    const bounds = this.bounds(cell);
    const lower = bounds.map(([first], axis) => this.edge(axis, first));
    const upper = bounds.map(([, last], axis) => (last + 1 === 2 ** this.tickBits ? this.box.upper[axis] : this.edge(axis, last + 1)));
    return { lower, upper };
  }

  /** Which child of its ancestor of a depth a code lies in. @param {bigint} code @param {number} depth */
  child(code, depth) {
    const below = BigInt(this.levelBits * (this.maxDepth - depth - 1));
    return Number((code >> below) & BigInt(this.fanout - 1));
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

  /** The code after a TRIM, drawn evenly from the kept part (section 11). @param {bigint} cell @param {number} depth of the cell @param {number[]} kept @param {bigint} word */
  move(cell, depth, kept, word) {
    const below = 1n << BigInt(this.levelBits * (this.maxDepth - depth - 1)); // codes in a child
    const drawn = (word * BigInt(kept.length) * below) >> 64n;
    return this.childCell(cell, kept[Number(drawn / below)]) * below + (drawn % below);
  }

  /** The middle of a cell: the position that a moved participant acts from. @param {bigint} cell */
  middle(cell) {
    const { lower, upper } = this.corners(cell);
    return lower.map((low, axis) => low + (upper[axis] - low) * 0.5);
  }

  /** The lengths of a cell's sides: in kilometres where the axes are degrees, else in their units. @override @param {bigint} cell */
  sides(cell) {
    const { lower, upper } = this.corners(cell);
    const found = upper.map((high, axis) => high - lower[axis]);
    const latitude = this.latitudeAxis;
    if (latitude < 0) return found;
    const middle = (lower[latitude] + upper[latitude]) / 2;
    return found.map((side, axis) => side * KILOMETRES_PER_DEGREE * (axis === latitude ? 1 : Math.cos((middle * Math.PI) / 180)));
  }

  /** Sides of the smallest cell of a depth: degrees of longitude are shortest at a corner of the domain. @param {number} depth */
  smallestSides(depth) {
    const { lower, upper } = this.box;
    const corners = Array.from({ length: 2 ** this.axes }, (_, bits) => lower.map((low, axis) => ((bits >> axis) & 1 ? upper[axis] : low)));
    const sides = corners.map((corner) => this.sides(this.ancestor(this.codeOf(corner), depth)));
    return lower.map((_, axis) => Math.min(...sides.map((row) => row[axis])));
  }
}
