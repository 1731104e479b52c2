// The regions of a map, round by round, as columns of numbers. See io/map_rows.py, which makes them.
// A frame is all rows of its round and, unless these are the whole map, the rows of earlier rounds that had ended.
// Knows columns. Knows no browser.

/**
 * @typedef {{cell: string[], x0: number[], y0: number[], x1: number[], y1: number[], area: number[], depth: number[],
 *   state: number[], crowd: number[], low: number[], high: number[], reason: string[], label?: string[],
 *   rings?: number[][][], walls?: Wall[][]}} Rows rings: outlines x, y, x, y, … of what is not a box
 * @typedef {{pieces: number[][], asked: number, above: number}} Wall a line inside a region: straight pieces x, y, x, y; who answered; estimated share beyond it along the order
 * @typedef {{round: number, kind: string, whole?: boolean, rows: Rows | null, received?: number, expected?: number | null, what?: string}} RoundDocument
 * @typedef {"density" | "crowd" | "depth" | "uncertainty"} Colour
 */

export const OPEN = 0;
export const REGION = 1;
const NUMBERS = /** @type {const} */ (["x0", "y0", "x1", "y1", "area", "depth", "state", "crowd", "low", "high"]);

/** Columns of a frame. Numbers are Float64Arrays; names and reasons are looked up by row. */
export class Frame {
  /**
   * @param {{rows: Rows, keep: number[] | null}[]} parts rows of rounds, and which of them are shown (null: all)
   */
  constructor(parts) {
    this.size = parts.reduce((sum, { rows, keep }) => sum + (keep ? keep.length : rows.cell.length), 0);
    /** @type {Record<string, Float64Array>} */
    this.columns = Object.fromEntries(NUMBERS.map((name) => [name, new Float64Array(this.size)]));
    let start = 0;
    /** @type {{start: number, rows: Rows, keep: number[] | null}[]} */
    this.parts = [];
    for (const { rows, keep } of parts) {
      const count = keep ? keep.length : rows.cell.length;
      for (const name of NUMBERS) {
        const [from, to] = [rows[name], this.columns[name]];
        if (keep) for (let place = 0; place < count; place++) to[start + place] = from[keep[place]];
        else to.set(from, start);
      }
      this.parts.push({ start, rows, keep });
      start += count;
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

  /** The text of a row; empty if it has none. @param {number} row @param {"cell" | "reason" | "label"} name @returns {string} */
  text(row, name) {
    const [rows, place] = this.#source(row);
    return rows[name]?.[place] ?? "";
  }

  /** The true outline of a row, if it is not a box. @param {number} row @returns {number[][] | null} */
  rings(row) {
    const [rows, place] = this.#source(row);
    return rows.rings?.[place] ?? null;
  }

  /** The lines inside a row. @param {number} row @returns {Wall[]} */
  walls(row) {
    const [rows, place] = this.#source(row);
    return rows.walls?.[place] ?? [];
  }

  /** Corners and numbers of a row. @param {number} row @returns {Record<string, number>} */
  row(row) {
    return Object.fromEntries(NUMBERS.map((name) => [name, this.columns[name][row]]));
  }

  /** Value of every row for a colour; NaN for what is not known. @param {Colour} colour */
  values(colour) {
    const { area, crowd, depth, low, high } = this.columns;
    const out = new Float64Array(this.size);
    for (let row = 0; row < this.size; row++) {
      if (colour === "density") out[row] = crowd[row] / area[row];
      else if (colour === "crowd") out[row] = crowd[row];
      else if (colour === "depth") out[row] = depth[row];
      else out[row] = (100 * (high[row] - low[row])) / Math.max(crowd[row], 1);
    }
    return out;
  }

  /** Whether all numbers of people are exact. */
  get isExact() {
    return this.columns.low.every((low, row) => !(low < this.columns.high[row]));
  }

  /** How many rows have a state. @param {number} state */
  count(state) {
    return this.columns.state.reduce((sum, one) => sum + (one === state ? 1 : 0), 0);
  }

  /** The row that holds a point, or -1. @param {number} x @param {number} y */
  find(x, y) {
    const { x0, y0, x1, y1 } = this.columns;
    for (let row = 0; row < this.size; row++) {
      if (x < x0[row] || x >= x1[row] || y < y0[row] || y >= y1[row]) continue;
      const rings = this.rings(row);
      if (!rings || isInside(rings, x, y)) return row;
    }
    return -1;
  }
}

/** Whether a point is inside rings, and in no hole. @param {number[][]} rings x, y, x, y, …, closed @param {number} x @param {number} y */
function isInside(rings, x, y) {
  let inside = false;
  for (const ring of rings) {
    for (let i = 0; i + 3 < ring.length; i += 2) {
      const [ax, ay, bx, by] = ring.slice(i, i + 4);
      if (ay <= y !== by <= y && x < ax + ((y - ay) * (bx - ax)) / (by - ay)) inside = !inside;
    }
  }
  return inside;
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
    const nothing = { area: [1], depth: [0], state: [OPEN], crowd: [NaN], low: [NaN], high: [NaN], reason: [""] };
    return { cell: ["1"], x0: [x0], y0: [y0], x1: [x1], y1: [y1], ...nothing };
  }
}
