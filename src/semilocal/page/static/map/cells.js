// The regions of a map, round by round, as columns (io/map_rows.py makes them). A frame is all rows of its round and, unless these
// are the whole map, the rows of earlier rounds that had ended. Knows columns and boxes. Knows no browser.

/** @import { Domain } from "#map/camera.js" */

/**
 * @typedef {{x0: number[], y0: number[], x1: number[], y1: number[], area: number[], state: number[],
 *   crowd: number[], half: number[], label?: string[], rings?: (number[][] | null)[], pieces?: Piece[][]}} Rows
 *   half: half the width of the 95 % interval; rings: outlines x, y, x, y, … of what is not a box
 * @typedef {{x0: number, y0: number, x1: number, y1: number, area: number, state: number, crowd: number, half: number,
 *   label?: string, rings?: number[][] | null, pieces?: Piece[]}} Row
 * @typedef {{people: number, area: number, rings: number[][]}} Piece a part of a region between lines that members answered about; estimated
 * @typedef {{round: number, kind: string, whole?: boolean, rows: Rows | null, received?: number, expected?: number | null}} RoundDocument
 */

export const OPEN = 0;
export const REGION = 1;
export const NOTHING = -1;

/** Whether a point is inside rings x, y, x, y, …, and in no hole. @param {number[][]} rings @param {number} x @param {number} y */
function isInside(rings, x, y) {
  let inside = false;
  for (const ring of rings) {
    for (let i = 0; i + 3 < ring.length; i += 2) {
      const [ax, ay, bx, by] = [ring[i], ring[i + 1], ring[i + 2], ring[i + 3]];
      if (ay <= y !== by <= y && x < ax + ((y - ay) * (bx - ax)) / (by - ay)) inside = !inside;
    }
  }
  return inside;
}

export class Frame {
  /** @param {{rows: Rows, keep: number[] | null}[]} parts rows of rounds, and which of them are shown (null: all) */
  constructor(parts) {
    /** @type {Row[]} */
    this.rows = parts.flatMap(({ rows, keep }) => {
      const columns = Object.entries(rows);
      return (keep ?? [...rows.x0.keys()]).map((place) => /** @type {Row} */ (Object.fromEntries(columns.map(([name, column]) => [name, column[place]]))));
    });
    this.pieces = this.rows.flatMap(({ pieces = [] }, row) => pieces.map((piece) => ({ ...piece, row })));
  }

  get size() {
    return this.rows.length;
  }

  /** The row that holds a point. @param {number} x @param {number} y */
  find(x, y) {
    return this.rows.findLastIndex(({ x0, y0, x1, y1, rings }) => x >= x0 && x < x1 && y >= y0 && y < y1 && (!rings || isInside(rings, x, y)));
  }

  /** The piece that holds a point. @param {number} x @param {number} y */
  findPiece(x, y) {
    return this.pieces.findIndex(({ rings }) => isInside(rings, x, y));
  }

  /** People per area of every row; NaN where they are not known. */
  get densities() {
    return this.rows.map(({ crowd, area }) => crowd / area);
  }

  get pieceDensities() {
    return this.pieces.map(({ people, area }) => people / area);
  }

  /** How many rows have a state. @param {number} wanted */
  count(wanted) {
    return this.rows.filter(({ state }) => state === wanted).length;
  }
}

/** All closed rounds of a campaign that have cells, in order. */
export class Timeline {
  /** @param {Domain} domain */
  constructor(domain) {
    this.domain = domain;
    /** @type {RoundDocument[]} */
    this.rounds = [];
  }

  /** Add the next round. @param {RoundDocument} document */
  add(document) {
    if (document.round !== this.rounds.length + 1) throw new Error(`round ${document.round} does not come next`);
    this.rounds.push(document);
  }

  /** The last round that changed the map; 0 if none did. */
  get last() {
    return this.rounds.findLast((one) => one.rows)?.round ?? 0;
  }

  /** The map after a round; before the first the whole domain is one open region. @param {number} number @returns {Frame} */
  frame(number) {
    const rounds = this.rounds.slice(0, number).flatMap(({ rows, whole }) => (rows ? [{ rows, whole }] : []));
    const newest = rounds.pop();
    if (!newest) return new Frame([{ rows: this.#whole(), keep: null }]);
    const ended = (/** @type {Rows} */ { state }) => [...state.keys()].filter((place) => state[place] !== OPEN);
    return new Frame([...(newest.whole ? [] : rounds.map(({ rows }) => ({ rows, keep: ended(rows) }))), { rows: newest.rows, keep: null }]);
  }

  /** @returns {Rows} */
  #whole() {
    const [x0, y0 = 0] = this.domain.lower;
    const [x1, y1 = 1] = this.domain.upper;
    return { x0: [x0], y0: [y0], x1: [x1], y1: [y1], area: [1], state: [OPEN], crowd: [NaN], half: [NaN] };
  }
}
