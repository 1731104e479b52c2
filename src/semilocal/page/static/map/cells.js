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
  /** @param {Rows} rows */
  constructor(rows) {
    this.rows = rows;
    this.size = rows.x0.length;
    this.open = rows.state.filter((state) => state === OPEN).length;
    /** People per area of every row; NaN where they are not known. */
    this.densities = rows.crowd.map((crowd, place) => crowd / rows.area[place]);
    this.pieces = (rows.pieces ?? []).flatMap((pieces, row) => pieces.map((piece) => ({ ...piece, row, density: piece.people / piece.area })));
  }

  /** One row; undefined if there is none. @param {number} place @returns {Row | undefined} */
  row(place) {
    return place in this.rows.x0 ? /** @type {any} */ (Object.fromEntries(Object.entries(this.rows).map(([name, column]) => [name, column[place]]))) : undefined;
  }

  /** The row that holds a point. @param {number} x @param {number} y */
  find(x, y) {
    const { x0, y0, x1, y1, rings } = this.rows;
    return x0.findLastIndex((left, row) => x >= left && x < x1[row] && y >= y0[row] && y < y1[row] && (!rings?.[row] || isInside(rings[row], x, y)));
  }

  /** The piece that holds a point. @param {number} x @param {number} y */
  findPiece(x, y) {
    return this.pieces.findIndex(({ rings }) => isInside(rings, x, y));
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
    const newest = rounds.at(-1);
    if (!newest || newest.whole) return new Frame(newest?.rows ?? this.#whole());
    const shown = rounds.map(({ rows }) => [...rows.x0.keys()].filter((place) => rows === newest.rows || rows.state[place] !== OPEN));
    const column = (/** @type {keyof Rows} */ name) => shown.flatMap((places, round) => places.map((place) => rounds[round].rows[name]?.[place] ?? null));
    const names = /** @type {(keyof Rows)[]} */ ([...new Set(rounds.flatMap(({ rows }) => Object.keys(rows)))]);
    return new Frame(/** @type {any} */ (Object.fromEntries(names.map((name) => [name, column(name)]))));
  }

  /** @returns {Rows} */
  #whole() {
    const [x0, y0 = 0] = this.domain.lower;
    const [x1, y1 = 1] = this.domain.upper;
    return { x0: [x0], y0: [y0], x1: [x1], y1: [y1], area: [1], state: [OPEN], crowd: [NaN], half: [NaN] };
  }
}
