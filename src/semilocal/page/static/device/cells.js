// What all hierarchies share: names of axes, and whether cells are long enough. Knows a tree's own methods.

import { check } from "#device/errors.js";

/** @typedef {{lower: number[], upper: number[], names: string[]}} Box */

const LONGITUDE = ["lon", "lng", "long", "longitude"];
const LATITUDE = ["lat", "latitude"];
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/u;

/** Whether a text shows all that it holds, and is not too long. @param {string} name @param {number} most characters */
export const isVisible = (name, most) => name !== "" && [...name].length <= most && !INVISIBLE.test(name);

/** A tree of cells over a box; a subclass has all methods that only throw here. */
export class Hierarchy {
  /** @param {Box} box */
  constructor(box) {
    this.box = checkedBox(box);
    this.axes = box.lower.length;
  }

  /** Whether the axes are degrees of longitude and latitude. */
  get isGeographic() {
    const names = this.box.names.map((name) => name.toLowerCase());
    return names.length === 2 && names.some((name) => LONGITUDE.includes(name)) && names.some((name) => LATITUDE.includes(name));
  }

  /** Which axis is the latitude; -1 if none is. */
  get latitudeAxis() {
    return this.isGeographic ? this.box.names.findIndex((name) => LATITUDE.includes(name.toLowerCase())) : -1;
  }

  /** What the deepest cells are called, in their order; empty if they have no names. @returns {string[]} */
  get leafNames() {
    return [];
  }

  /** Whether a position has one number per axis, inside the domain. @param {number[]} point */
  holds(point) {
    return point.length === this.axes && point.every((x, axis) => this.box.lower[axis] <= x && x <= this.box.upper[axis]);
  }

  /** How many children a cell has. @param {bigint} cell @returns {number} */
  width(cell) {
    throw new Error(`no width of ${cell}`);
  }

  /** @param {bigint} cell @param {number} child @returns {bigint} */
  childCell(cell, child) {
    throw new Error(`no child ${child} of ${cell}`);
  }

  /** First code of a cell, and the code after its last. @param {bigint} cell @returns {[bigint, bigint]} */
  interval(cell) {
    throw new Error(`no codes of ${cell}`);
  }

  /** The lengths of a cell's sides. @param {bigint} cell @returns {number[]} */
  sides(cell) {
    throw new Error(`no sides of ${cell}`);
  }

  /** Whether no side of a cell is too short. @param {bigint} cell @param {number[]} least none, one for all axes, or one per axis */
  isLongEnough(cell, least) {
    return !least.length || this.sides(cell).every((side, axis) => side >= (least[axis] ?? least[0]) * (1 - 1e-9));
  }

  /** Whether no child of a cell is too short. @param {bigint} cell @param {number[]} least */
  hasLongEnoughChildren(cell, least) {
    return !least.length || Array.from({ length: this.width(cell) }, (_, child) => this.childCell(cell, child)).every((child) => this.isLongEnough(child, least));
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
    return Array.from({ length: this.width(cell) }, (_, child) => this.intervalCells(lower, upper, this.childCell(cell, child))).flat();
  }

  /** The cell with the most codes inside an interval, the first of several. @param {bigint} lower @param {bigint} upper */
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
