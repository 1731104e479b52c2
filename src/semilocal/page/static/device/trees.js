// The hierarchies that a task can name (spec/protocol.md, section 4): boxes along a Hilbert curve, cells of equal area on
// the whole Earth, a table of named cells. Knows geometry and cells. Knows no participants and no noise.

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
    return !least.length || Array.from({ length: this.width(cell) }, (_, child) => this.childCell(cell, child)).every((child) => this.isLongEnough(child, least));
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
    return Array.from({ length: this.width(cell) }, (_, child) => this.intervalCells(lower, upper, this.childCell(cell, child))).flat();
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

/** A tree in which a code is a path from the root: the same number of bits for every level. */
class PathTree extends Hierarchy {
  /** @param {Box} box @param {number} levels @param {number} levelBits */
  constructor(box, levels, levelBits) {
    super(box);
    this.hasOneFanout = true;
    this.maxDepth = levels;
    this.levelBits = levelBits;
    this.fanout = 2 ** levelBits;
    this.pathBits = levelBits * levels;
    check(levels >= 1 && this.pathBits <= 60, `a path has 1 to 60 bits; got ${this.pathBits}`);
  }

  /** @param {bigint} _ */
  width(_) {
    return this.fanout;
  }

  /** @param {bigint} cell @param {number} child */
  childCell(cell, child) {
    return cell * BigInt(this.fanout) + BigInt(child);
  }

  /** @param {bigint} cell */
  depthOf(cell) {
    return (cell.toString(2).length - 1) / this.levelBits;
  }

  /** @param {bigint} cell @returns {[bigint, bigint]} */
  interval(cell) {
    const below = BigInt(this.pathBits - (cell.toString(2).length - 1));
    return [cell << below, (cell + 1n) << below];
  }
}

export class Tree extends PathTree {
  /** @param {{kind: "binary" | "quad", box: Box, max_depth: number}} fields */
  constructor({ kind, box, max_depth }) {
    super(box, max_depth, kind === "binary" ? 1 : box.lower.length);
    this.kind = kind;
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

  /** Shortest sides of the deepest cells: longitude is shortest at a corner of the domain. */
  get smallestSides() {
    const least = 2 ** (this.tickBits - Math.ceil(this.pathBits / this.axes));
    const widths = this.box.lower.map((_, axis) => (axis < this.pathBits ? least : 2 * least)); // the first level is alike in all cells
    const most = 2 ** this.tickBits;
    const corners = Array.from({ length: 2 ** this.axes }, (_, at) => widths.map((width, axis) => ((at >> axis) & 1 ? most - width : 0)));
    const end = (/** @type {number} */ tick, /** @type {number} */ axis) => (tick === most ? this.box.upper[axis] : this.edge(axis, tick));
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

/** @typedef {{face: number, low: [number, number], high: [number, number]}} Square lower and upper (x, y) on a face */

const FACE_KM = 6519.62;
const WORLD = { lower: [-180, -90], upper: [180, 90], names: ["longitude", "latitude"] };
const ROUNDING = 1e-9; // degrees by which corners lie outside of a cell
const radians = (/** @type {number} */ degrees) => (degrees * Math.PI) / 180;
const degrees = (/** @type {number} */ angle) => (angle * 180) / Math.PI;

export class Sphere extends PathTree {
  /** @param {{max_depth: number}} fields */
  constructor({ max_depth }) {
    super(WORLD, max_depth, 1);
    check(max_depth >= 4 && max_depth <= 52, `a sphere has 4 to 52 levels; got ${max_depth}`);
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

  /** Sides in kilometres along x and y; those of a face for larger cells. @param {bigint} cell */
  sides(cell) {
    const [{ low, high }] = this.squares(cell);
    return [FACE_KM * (high[0] - low[0]), FACE_KM * (high[1] - low[1])];
  }

  /** Sides of the smallest cell: those of the south, where faces are one level higher. */
  get smallestSides() {
    return this.sides(this.codeOf([0, -90]));
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
    this.leafNames = labels[widths.length] ?? [];
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

  /** @param {bigint} cell */
  width(cell) {
    const [depth, index] = this.place(cell);
    return depth === this.maxDepth ? 0 : this.widths[depth][index];
  }

  /** @param {bigint} cell @param {number} child */
  childCell(cell, child) {
    const [depth, index] = this.place(cell);
    return BigInt(this.starts[depth + 1] + this.children[depth][index] + child);
  }

  /** @param {bigint} cell */
  depthOf(cell) {
    return this.place(cell)[0];
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

/** @typedef {ReturnType<typeof import("#device/task.js").readHierarchy>} Fields */
/** @typedef {Tree | Sphere | Table} AnyTree */

/** The tree that fields describe; those that fit no tree are refused. @param {Fields} fields @returns {AnyTree} */
export function treeOf(fields) {
  if (fields.kind === "sphere") return new Sphere(fields);
  if (fields.kind === "table") return new Table(fields);
  return new Tree(fields);
}

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
