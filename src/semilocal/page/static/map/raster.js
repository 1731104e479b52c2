// Cells to pixels. First every pixel learns which row it shows, then rows are coloured: a new colour needs no geometry,
// and what is under the pointer is one look-up. No drawing calls, so the time hardly depends on the number of cells.
// Knows typed arrays. Knows no browser.

import { OPEN } from "#map/cells.js";

export const NOTHING = -1;
const EDGE_PIXELS = 5; // smaller cells have no outline: it would hide their colour
const SHAPED = 2; // pixels: smaller cells are drawn as boxes

/**
 * Which row every pixel shows.
 * @param {Int32Array} index width × height, written
 * @param {import("#map/cells.js").Frame} frame
 * @param {import("#map/camera.js").Camera} camera in device pixels
 */
export function locate(index, frame, camera) {
  const { width, height, scale, aspect } = camera;
  index.fill(NOTHING);
  const { x0, y0, x1, y1 } = frame.columns;
  const yScale = scale * aspect;
  const outlined = frame.hasOutlines;
  const [left, top] = [width / 2 - camera.x * scale, height / 2 + camera.y * yScale];
  for (let row = 0; row < frame.size; row++) {
    let from = Math.round(x0[row] * scale + left);
    let to = Math.round(x1[row] * scale + left);
    let above = Math.round(top - y1[row] * yScale);
    let below = Math.round(top - y0[row] * yScale);
    if (to === from) to = from + 1; // the smallest cells are the densest: they show as one pixel
    if (below === above) below = above + 1;
    if (to <= 0 || from >= width || below <= 0 || above >= height) continue;
    const large = to - from > SHAPED || below - above > SHAPED;
    const rings = outlined && large ? frame.rings(row) : null;
    if (rings && fillRings(index, width, height, row, rings, (x) => x * scale + left, (y) => top - y * yScale)) continue;
    from = Math.max(from, 0);
    to = Math.min(to, width);
    above = Math.max(above, 0);
    below = Math.min(below, height);
    for (let line = above * width; line < below * width; line += width) index.fill(row, line + from, line + to);
  }
}

/**
 * Which piece of a region every pixel shows.
 * @param {Int32Array} index width × height, written @param {import("#map/cells.js").Frame} frame
 * @param {import("#map/camera.js").Camera} camera in device pixels
 */
export function locatePieces(index, frame, { width, height, scale, aspect, x, y }) {
  index.fill(NOTHING);
  const [left, top] = [width / 2 - x * scale, height / 2 + y * scale * aspect];
  frame.pieces.forEach(({ rings }, place) => fillRings(index, width, height, place, rings, (at) => at * scale + left, (at) => top - at * scale * aspect));
}

/**
 * Give the pixels whose middle is inside rings to a row. Whether there were any: if not, the cell is a pixel or less.
 * @param {Int32Array} index @param {number} width @param {number} height @param {number} row
 * @param {number[][]} rings each x, y, x, y, …, closed @param {(x: number) => number} toLeft @param {(y: number) => number} toTop
 */
function fillRings(index, width, height, row, rings, toLeft, toTop) {
  const edges = rings.flatMap((ring) => Array.from({ length: ring.length / 2 - 1 }, (_, i) =>
    [toLeft(ring[2 * i]), toTop(ring[2 * i + 1]), toLeft(ring[2 * i + 2]), toTop(ring[2 * i + 3])]));
  const heights = edges.map(([, y]) => y);
  const last = Math.min(height, Math.max(...heights) + 0.5);
  let filled = false;
  for (let y = Math.max(0, Math.ceil(Math.min(...heights) - 0.5)); y < last; y++) {
    const middle = y + 0.5;
    const crossings = edges.filter(([, y0, , y1]) => y0 <= middle !== y1 <= middle).map(([x0, y0, x1, y1]) => x0 + ((middle - y0) * (x1 - x0)) / (y1 - y0));
    crossings.sort((a, b) => a - b);
    for (let i = 0; i + 1 < crossings.length; i += 2) {
      const [from, to] = [Math.max(0, Math.ceil(crossings[i] - 0.5)), Math.min(width, Math.ceil(crossings[i + 1] - 0.5))];
      if (to > from) index.fill(row, y * width + from, y * width + to);
      filled ||= to > from;
    }
  }
  return filled;
}

/**
 * Colour the pixels.
 * @param {Uint32Array} pixels width × height, written
 * @param {Int32Array} index from {@link locate}
 * @param {import("#map/cells.js").Frame} frame
 * @param {import("#map/camera.js").Camera} camera
 * @param {Uint32Array} colours one per row
 * @param {{index: Int32Array, colours: Uint32Array} | null} inner of pieces, if they have colours of their own
 * @param {{background: number, edge: number, open: number}} style pixels
 */
export function paint(pixels, index, frame, camera, colours, inner, style) {
  const { width, height, scale, aspect } = camera;
  const { x0, y0, x1, y1, state } = frame.columns;
  const edges = new Uint32Array(frame.size); // colour of the outline, 0 for none
  for (let row = 0; row < frame.size; row++) {
    const short = Math.min((x1[row] - x0[row]) * scale, (y1[row] - y0[row]) * scale * aspect);
    if (short >= EDGE_PIXELS) edges[row] = state[row] === OPEN ? style.open : style.edge;
  }
  for (let y = 0, place = 0; y < height; y++) {
    const lastLine = y === height - 1;
    for (let x = 0; x < width; x++, place++) {
      const row = index[place];
      if (row === NOTHING) {
        pixels[place] = style.background;
        continue;
      }
      const outline = edges[row];
      if (outline && ((x + 1 < width && index[place + 1] !== row) || (!lastLine && index[place + width] !== row))) {
        pixels[place] = outline;
      } else {
        const piece = inner ? inner.index[place] : NOTHING;
        pixels[place] = inner && piece !== NOTHING ? inner.colours[piece] : colours[row];
      }
    }
  }
}
