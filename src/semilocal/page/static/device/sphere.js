// The whole Earth in cells of equal area (spec/protocol.md, section 4.2): twelve faces, one bit per level. Knows
// geometry. Knows no participants and no noise.

import { Hierarchy } from "#device/cells.js";
import { InvalidInput, check } from "#device/errors.js";

/** @typedef {{face: number, low: [number, number], high: [number, number]}} Square lower and upper (x, y) on a face */

const FACE_KM = 6519.62;
const WORLD = { lower: [-180, -90], upper: [180, 90], names: ["longitude", "latitude"] };
const ROUNDING = 1e-9; // degrees by which corners lie outside of a cell
const radians = (/** @type {number} */ degrees) => (degrees * Math.PI) / 180;
const degrees = (/** @type {number} */ angle) => (angle * 180) / Math.PI;

export class Sphere extends Hierarchy {
  /** @param {{max_depth: number}} fields */
  constructor({ max_depth }) {
    super(WORLD);
    check(max_depth >= 4 && max_depth <= 52, `a sphere has 4 to 52 levels; got ${max_depth}`);
    this.maxDepth = max_depth;
    this.fanout = 2;
    this.hasOneFanout = true;
  }

  /** The deepest cell of a position. @param {number[]} point @returns {bigint} */
  codeOf(point) {
    if (!this.holds(point)) throw new InvalidInput("the position must be a longitude from -180 to 180 and a latitude from -90 to 90; it is never clipped");
    const [face, x, y] = onFace(point[0], point[1]);
    const bits = Math.ceil((this.maxDepth - 3) / 2);
    const ticks = [y, x].map((side) => BigInt(Math.min(Math.floor(side * 2 ** bits), 2 ** bits - 1)));
    let [code, depth] = faceCell(face);
    for (let step = 0; depth < this.maxDepth; step++, depth++) {
      code = (code << 1n) | ((ticks[step % 2] >> BigInt(bits - 1 - Math.floor(step / 2))) & 1n);
    }
    return code;
  }

  /** The cell of a depth that holds a code. @param {bigint} code @param {number} depth */
  ancestor(code, depth) {
    return code >> BigInt(this.maxDepth - depth);
  }

  /** @override @param {bigint} _ */
  width(_) {
    return 2;
  }

  /** @override @param {bigint} cell @param {number} child */
  childCell(cell, child) {
    return 2n * cell + BigInt(child);
  }

  /** Whether a cell has this depth. @param {bigint} cell @param {number} depth */
  hasDepth(cell, depth) {
    return cell >> BigInt(depth) === 1n;
  }

  /** First code of a cell, and the code after its last. @override @param {bigint} cell @returns {[bigint, bigint]} */
  interval(cell) {
    const below = BigInt(this.maxDepth - (cell.toString(2).length - 1));
    return [cell << below, (cell + 1n) << below];
  }

  /** The faces, or the part of one, that a cell is. @param {bigint} cell @returns {Square[]} */
  squares(cell) {
    const path = cell.toString(2).slice(1);
    const starts = Array.from({ length: 12 }, (_, face) => faceCell(face)[0].toString(2).slice(1));
    const whole = [...starts.keys()].filter((face) => starts[face].startsWith(path) && starts[face] !== path);
    if (whole.length) return whole.map((face) => ({ face, low: [0, 0], high: [1, 1] }));
    const face = starts.findIndex((start) => path.startsWith(start));
    const [low, size] = [[0, 0], [1, 1]];
    [...path.slice(starts[face].length)].forEach((bit, step) => {
      const axis = 1 - (step % 2);
      size[axis] /= 2;
      low[axis] += size[axis] * Number(bit);
    });
    return [{ face, low: [low[0], low[1]], high: [low[0] + size[0], low[1] + size[1]] }];
  }

  /** The corners of the smallest box around a cell; a cell across the date line has every longitude. @param {bigint} cell @returns {{lower: number[], upper: number[]}} */
  corners(cell) {
    const boxes = this.squares(cell).map(({ face, low, high }) => {
      const [west, east] = [onEarth(face, low[0], high[1])[0], onEarth(face, high[0], low[1])[0]];
      const [south, north] = [onEarth(face, low[0], low[1])[1], onEarth(face, high[0], high[1])[1]];
      const ends = west >= 180 ? [west - 360, east - 360] : east > 180 ? [-180, 180] : [west, east];
      return { lower: [ends[0] - ROUNDING, south - ROUNDING], upper: [ends[1] + ROUNDING, north + ROUNDING] };
    });
    return {
      lower: WORLD.lower.map((low, axis) => Math.max(low, Math.min(...boxes.map(({ lower }) => lower[axis])))),
      upper: WORLD.upper.map((high, axis) => Math.min(high, Math.max(...boxes.map(({ upper }) => upper[axis])))),
    };
  }

  /** The middle of a deepest cell. @param {bigint} code */
  middle(code) {
    const [{ face, low, high }] = this.squares(code);
    const [longitude, latitude] = onEarth(face, low[0] + 0.5 * (high[0] - low[0]), low[1] + 0.5 * (high[1] - low[1]));
    return [longitude > 180 ? longitude - 360 : longitude, latitude];
  }

  /** Sides in kilometres along x and y; those of a face for larger cells. @override @param {bigint} cell */
  sides(cell) {
    const [{ low, high }] = this.squares(cell);
    return [FACE_KM * (high[0] - low[0]), FACE_KM * (high[1] - low[1])];
  }

  /** Sides of the smallest cell of a depth: those of the south, where faces are one level higher. @param {number} depth */
  smallestSides(depth) {
    return this.sides(this.ancestor(this.codeOf([0, -90]), depth));
  }
}

/** The cell that a face is, and its depth. @param {number} face @returns {[bigint, number]} */
function faceCell(face) {
  const quarter = BigInt(4 + (face % 4));
  return face >= 8 ? [2n * quarter + 1n, 3] : [4n * quarter + BigInt(Math.floor(face / 4)), 4];
}

/** Face, x and y of a position. @param {number} longitude @param {number} latitude @returns {[number, number, number]} */
function onFace(longitude, latitude) {
  const height = Math.sin(radians(latitude));
  let turn = longitude === 180 ? 2 - 2 ** -52 : (longitude < 0 ? longitude + 360 : longitude) / 90;
  if (turn >= 4) turn = 0;
  if (Math.abs(height) <= 2 / 3) {
    const [up, down] = [0.5 + turn - 0.75 * height, 0.5 + turn + 0.75 * height];
    const [first, second] = [Math.floor(up), Math.floor(down)];
    const face = first === second ? 4 + (first % 4) : first < second ? (first + 4) % 4 : 8 + ((second + 4) % 4);
    return [face, down - second, 1 - (up - first)];
  }
  const quarter = Math.floor(turn);
  const along = turn - quarter;
  const away = Math.min(Math.cos(radians(latitude)) * Math.sqrt(3 / (1 + Math.abs(height))), 1);
  return height > 0 ? [quarter, 1 - (1 - along) * away, 1 - along * away] : [8 + quarter, along * away, (1 - along) * away];
}

/** Longitude, from -45 to 360, and latitude of a place on a face. @param {number} face @param {number} x @param {number} y @returns {[number, number]} */
function onEarth(face, x, y) {
  const row = Math.floor(face / 4) + 2 - x - y;
  const away = Math.min(row, 4 - row, 1);
  const polar = 90 - degrees(2 * Math.asin(away / Math.sqrt(6)));
  const latitude = row < 1 ? polar : row > 3 ? -polar : degrees(Math.asin(((2 - row) * 2) / 3));
  const middle = 2 * (face % 4) + (face >= 4 && face < 8 ? 0 : 1);
  return [45 * (middle + (away > 0 ? Math.max(-1, Math.min(1, (x - y) / away)) : 0)), latitude];
}
