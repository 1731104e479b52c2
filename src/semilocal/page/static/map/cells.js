// The regions of a map, round by round, as columns of numbers (io/map_rows.py makes them), and the outline of a region.
// A frame is all rows of its round and, unless these are the whole map, the rows of earlier rounds that had ended.
// Knows columns and boxes. Knows no browser.

import { areaOf, pairs } from "#map/camera.js";

/**
 * @typedef {{x0: number[], y0: number[], x1: number[], y1: number[], area: number[], depth: number[], state: number[],
 *   crowd: number[], half: number[], reason: string[], label?: string[], rings?: (number[][] | null)[], pieces?: Piece[][]}} Rows
 *   half: half the width of the 95 % interval; rings: outlines x, y, x, y, … of what is not a box
 * @typedef {{people: number, area: number, rings: number[][]}} Piece a part of a region between lines that members answered about; estimated
 * @typedef {{round: number, kind: string, whole?: boolean, rows: Rows | null, received?: number, expected?: number | null, what?: string}} RoundDocument
 * @typedef {"density" | "crowd" | "depth" | "uncertainty"} Colour
 */

export const OPEN = 0;
export const REGION = 1;
const NUMBERS = /** @type {const} */ (["x0", "y0", "x1", "y1", "area", "depth", "state", "crowd", "half"]);

/** Columns of a frame. Numbers are Float64Arrays; names and reasons are looked up by row. */
export class Frame {
  /**
   * @param {{rows: Rows, keep: number[] | null}[]} parts rows of rounds, and which of them are shown (null: all)
   */
  constructor(parts) {
    this.size = parts.reduce((sum, { rows, keep }) => sum + (keep ? keep.length : rows.x0.length), 0);
    /** @type {Record<string, Float64Array>} */
    this.columns = Object.fromEntries(NUMBERS.map((name) => [name, new Float64Array(this.size)]));
    let start = 0;
    /** @type {{start: number, rows: Rows, keep: number[] | null}[]} */
    this.parts = [];
    for (const { rows, keep } of parts) {
      const count = keep ? keep.length : rows.x0.length;
      for (const name of NUMBERS) {
        const [from, to] = [rows[name], this.columns[name]];
        if (keep) for (let place = 0; place < count; place++) to[start + place] = from[keep[place]];
        else to.set(from, start);
      }
      this.parts.push({ start, rows, keep });
      start += count;
    }
    const { crowd, half } = this.columns;
    this.columns.low = crowd.map((value, row) => Math.max(value - half[row], 0));
    this.columns.high = crowd.map((value, row) => value + half[row]);
    /** @type {(Piece & {row: number})[]} */
    this.pieces = [];
    for (let row = 0; row < this.size; row++) {
      const [rows, place] = this.#source(row);
      for (const piece of rows.pieces?.[place] ?? []) this.pieces.push({ ...piece, row });
    }
  }

  /** Whether there are cells that are not boxes. */
  get hasOutlines() {
    return this.parts.some(({ rows }) => rows.rings);
  }

  /** The round that a row is from, and its place there. @param {number} row @returns {[Rows, number]} */
  #source(row) {
    let part = this.parts[0];
    for (const one of this.parts) if (one.start <= row) part = one;
    const place = row - part.start;
    return [part.rows, part.keep ? part.keep[place] : place];
  }

  /** The text of a row; empty if it has none. @param {number} row @param {"reason" | "label"} name @returns {string} */
  text(row, name) {
    const [rows, place] = this.#source(row);
    return rows[name]?.[place] ?? "";
  }

  /** The true outline of a row, if it is not a box. @param {number} row @returns {number[][] | null} */
  rings(row) {
    const [rows, place] = this.#source(row);
    return rows.rings?.[place] ?? null;
  }

  /** Corners and numbers of a row. @param {number} row @returns {Record<string, number>} */
  row(row) {
    return Object.fromEntries(Object.entries(this.columns).map(([name, column]) => [name, column[row]]));
  }

  /** Value of every row for a colour; NaN for what is not known. @param {Colour} colour */
  values(colour) {
    const { area, crowd, depth, half } = this.columns;
    const out = new Float64Array(this.size);
    for (let row = 0; row < this.size; row++) {
      if (colour === "density") out[row] = crowd[row] / area[row];
      else if (colour === "crowd") out[row] = crowd[row];
      else if (colour === "depth") out[row] = depth[row];
      else out[row] = (200 * half[row]) / Math.max(crowd[row], 1);
    }
    return out;
  }

  /** Value of every piece, where it has one of its own: densities. @param {Colour} colour @returns {number[]} */
  pieceValues(colour) {
    return colour === "density" ? this.pieces.map(({ people, area }) => people / area) : [];
  }

  /** Whether all numbers of people are exact. */
  get isExact() {
    return this.columns.half.every((half) => !(half > 0));
  }

  /** How many rows have a state. @param {number} state */
  count(state) {
    return this.columns.state.reduce((sum, one) => sum + (one === state ? 1 : 0), 0);
  }
}

/** All closed rounds of a campaign that have cells, in order. */
export class Timeline {
  /** @param {import("#map/camera.js").Domain} domain */
  constructor(domain) {
    this.domain = domain;
    /** @type {RoundDocument[]} */
    this.rounds = [];
    /** @type {number[][]} rows that are not open, by round */
    this.ended = [];
  }

  /** Add the next round. @param {RoundDocument} document */
  add(document) {
    if (document.round !== this.rounds.length + 1) throw new Error(`round ${document.round} does not come next`);
    this.rounds.push(document);
    const ended = [];
    if (document.rows) for (const [row, state] of document.rows.state.entries()) if (state !== OPEN) ended.push(row);
    this.ended.push(ended);
  }

  /** The last round that changed the map; 0 if none did. */
  get last() {
    return this.rounds.findLast((one) => one.rows)?.round ?? 0;
  }

  /** The map after a round; before the first the whole domain is one open region. @param {number} number @returns {Frame} */
  frame(number) {
    const rounds = this.rounds.slice(0, number);
    const last = rounds.findLastIndex((one) => one.rows);
    if (last < 0) return new Frame([{ rows: this.#whole(), keep: null }]);
    const before = rounds[last].whole ? [] : rounds.slice(0, last).map((one, index) => ({ rows: one.rows, keep: this.ended[index] }));
    const parts = [...before, { rows: rounds[last].rows, keep: null }];
    return new Frame(/** @type {{rows: Rows, keep: number[] | null}[]} */ (parts.filter((part) => part.rows)));
  }

  /** @returns {Rows} */
  #whole() {
    const [x0, y0 = 0] = this.domain.lower;
    const [x1, y1 = 1] = this.domain.upper;
    const nothing = { area: [1], depth: [0], state: [OPEN], crowd: [NaN], half: [NaN], reason: [""] };
    return { x0: [x0], y0: [y0], x1: [x1], y1: [y1], ...nothing };
  }
}

/** @typedef {{lower: number[], upper: number[]}} Box */

/**
 * What to draw for a region and the lines in it: outlines of its parts.
 * @param {{axes: number, intervalCells: (lower: bigint, upper: bigint) => bigint[], corners: (cell: bigint) => Box}} tree
 * @param {[bigint, bigint]} region @param {bigint[]} cuts inside it @returns {import("#map/camera.js").Area[]}
 */
export function marksOf(tree, [lower, upper], cuts) {
  const edges = [lower, ...new Set(cuts), upper].sort((a, b) => (a < b ? -1 : 1));
  return edges.slice(1).flatMap((edge, i) => {
    const boxes = tree.intervalCells(edges[i], edge).map((cell) => tree.corners(cell));
    if (tree.axes === 1 || !("kind" in tree)) return boxes.map(({ lower: low, upper: high }) => ({ x0: low[0], y0: low[1] ?? 0, x1: high[0], y1: high[1] ?? 1 }));
    return outlineOf(boxes).map((ring) => areaOf(pairs(ring)));
  });
}

/**
 * The outline of boxes that meet, such as the cells of a region: the outer ring, then holes; x, y, x, y, …, closed.
 * Sides of neighbours cancel. Where four pieces meet the walk turns to the right, so that no ring touches itself.
 * @param {Box[]} boxes of two dimensions, with the same numbers where they meet
 * @returns {number[][]}
 */
export function outlineOf(boxes) {
  const level = pieces(boxes.flatMap(({ lower, upper }) => [[lower[1], lower[0], upper[0], 1], [upper[1], lower[0], upper[0], -1]]));
  const upright = pieces(boxes.flatMap(({ lower, upper }) => [[upper[0], lower[1], upper[1], 1], [lower[0], lower[1], upper[1], -1]]));
  const key = (/** @type {number} */ x, /** @type {number} */ y, /** @type {number} */ direction) => `${x},${y},${direction}`;
  const ups = new Map(upright.map(([x, start, end]) => [key(x, start, Math.sign(end - start)), [x, end, Math.sign(end - start)]]));
  const rights = new Map(level.sort((a, b) => a[0] - b[0] || a[1] - b[1]).map((piece) => [key(piece[1], piece[0], Math.sign(piece[2] - piece[1])), piece]));
  const open = new Set(rights.keys());
  const rings = [];
  for (const first of rights.keys()) {
    const ring = [];
    for (let at = first; open.delete(at); ) {
      const [y, start, end] = /** @type {number[]} */ (rights.get(at));
      ring.push(start, y, end, y);
      const right = Math.sign(end - start);
      const [x, stop, up] = /** @type {number[]} */ (ups.get(key(end, y, -right)) ?? ups.get(key(end, y, right)));
      at = rights.has(key(x, stop, up)) ? key(x, stop, up) : key(x, stop, -up);
    }
    if (ring.length) rings.push([...ring, ring[0], ring[1]]);
  }
  return rings;
}

/** What is left of sides [line, from, to, direction]: their longest pieces [line, start, end]. @param {number[][]} sides @returns {number[][]} */
function pieces(sides) {
  /** @type {Map<number, Map<number, number>>} */
  const lines = new Map();
  for (const [line, low, high, direction] of sides) {
    const changes = lines.get(line) ?? new Map();
    changes.set(low, (changes.get(low) ?? 0) + direction);
    changes.set(high, (changes.get(high) ?? 0) - direction);
    lines.set(line, changes);
  }
  const out = [];
  for (const [line, changes] of lines) {
    let [walks, start] = [0, 0];
    for (const [place, change] of [...changes].filter((one) => one[1] !== 0).sort((a, b) => a[0] - b[0])) {
      if (walks > 0) out.push([line, start, place]);
      if (walks < 0) out.push([line, place, start]);
      [walks, start] = [walks + change, place];
    }
  }
  return out;
}
