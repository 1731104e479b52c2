// The cells of a map: their colours, their legend, and the one under the pointer. Knows a frame and a canvas. Knows no pointer.

/** @import { Area } from "#map/camera.js" */
/** @import { MapView } from "#map/view.js" */

import { html } from "#vendor/lit-html.js";
import * as cameras from "#map/camera.js";
import { Frame, NOTHING, OPEN } from "#map/cells.js";
import { pixel, position, ramp, robustScale, short, strip, ticks } from "#map/colours.js";

const EDGE_PIXELS = 5; // smaller cells have no outline: it would hide their colour

export class CellLayer {
  frame = new Frame({ x0: [], y0: [], x1: [], y1: [], area: [], state: [], crowd: [], half: [] });
  scale = robustScale([]);
  colours = new Uint16Array(0); // of the rows
  known = false; // whether there is anything to tell by colours
  hovered = NOTHING;
  piece = NOTHING;

  /** @param {Frame} frame */
  show(frame) {
    this.frame = frame;
    this.hovered = this.piece = NOTHING;
    const cut = new Set(frame.pieces.map(({ row }) => row));
    this.scale = robustScale([...frame.densities.filter((_, row) => !cut.has(row)), ...frame.pieces.map(({ density }) => density)]);
    this.known = frame.densities.some(Number.isFinite);
    this.colours = Uint16Array.from(frame.densities, (density) => this.#colour(density));
  }

  /** The place of a density in the table of colours. @param {number} density */
  #colour(density) {
    return Number.isNaN(density) ? 256 : Math.round(255 * position(this.scale, density));
  }

  /** Look at a point; whether another cell or piece is there. @param {number} x @param {number} y */
  point(x, y) {
    const [row, piece] = [this.frame.find(x, y), this.frame.findPiece(x, y)];
    const changed = row !== this.hovered || piece !== this.piece;
    [this.hovered, this.piece] = [row, piece];
    return changed;
  }

  /** The outline of the cell under the pointer. @returns {Area[]} */
  get pointed() {
    const row = this.frame.row(this.hovered);
    return row ? (row.rings?.map((ring) => cameras.areaOf(cameras.pairs(ring))) ?? [row]) : [];
  }

  /** The outline of a cell that is no box or has pieces. @param {number} row */
  #rings(row) {
    const { x0, y0, x1, y1, rings, pieces } = this.frame.rows;
    return rings?.[row] ?? (pieces?.[row].length ? [[x0[row], y0[row], x1[row], y0[row], x1[row], y1[row], x0[row], y1[row], x0[row], y0[row]]] : null);
  }

  /** Fill cells, on whole pixels so that neighbours meet, and outline those that are large enough: boxes straight into the pixels of a
   * picture, a million in a frame; then other shapes, and pieces.
   * @param {CanvasRenderingContext2D} context @param {MapView} map */
  draw(context, { device, style, theme }) {
    const { frame, colours } = this;
    const { x0, y0, x1, y1, state } = frame.rows;
    const { width, height, scale } = device, up = scale * device.aspect;
    const [west, north] = [width / 2 - device.x * scale, height / 2 + device.y * up];
    const [table, edge, open] = [Uint32Array.of(...ramp(theme), pixel(style.unknown)), pixel(style.edge), pixel(style.open)];
    const picture = context.createImageData(width, height);
    const pixels = new Uint32Array(picture.data.buffer).fill(pixel(style.outside));
    const paint = (/** @type {number} */ colour, /** @type {number} */ left, /** @type {number} */ top, /** @type {number} */ right, /** @type {number} */ bottom) => {
      const from = Math.max(left, 0), across = Math.min(right, width) - from, end = Math.min(bottom, height) * width;
      for (let line = Math.max(top, 0) * width + from; line < end; line += width) for (let at = line; at < line + across; at++) pixels[at] = colour;
    };
    const shapes = [];
    for (let row = 0; row < frame.size; row++) {
      const left = Math.round(west + x0[row] * scale), top = Math.round(north - y1[row] * up);
      if (left >= width || top >= height) continue;
      const right = Math.max(Math.round(west + x1[row] * scale), left + 1); // the smallest cells are the densest: they show as one pixel
      const bottom = Math.max(Math.round(north - y0[row] * up), top + 1);
      if (right <= 0 || bottom <= 0) continue;
      const large = Math.min(right - left, bottom - top) >= EDGE_PIXELS;
      const rings = Math.max(right - left, bottom - top) > 2 ? this.#rings(row) : null;
      if (rings) shapes.push({ row, rings, large });
      else paint(table[colours[row]], left, top, right, bottom);
      if (rings || !large) continue;
      const line = state[row] === OPEN ? open : edge;
      paint(line, right - 1, top, right, bottom);
      paint(line, left, bottom - 1, right, bottom);
    }
    context.putImageData(picture, 0, 0);
    const fill = (/** @type {number[][]} */ rings, /** @type {number} */ colour) => {
      const path = new Path2D();
      for (const ring of rings) {
        cameras.pairs(ring).forEach((corner, i) => {
          const [left, top] = cameras.toScreen(device, ...corner);
          path[i ? "lineTo" : "moveTo"](Math.round(left), Math.round(top));
        });
      }
      context.fillStyle = `rgb(${table[colour] & 255} ${(table[colour] >> 8) & 255} ${(table[colour] >> 16) & 255})`;
      context.fill(path, "evenodd");
      return path;
    };
    const outlines = shapes.map(({ row, rings, large }) => ({ path: fill(rings, colours[row]), row, large }));
    for (const { rings, density } of frame.pieces) fill(rings, this.#colour(density));
    context.lineWidth = 1;
    context.translate(-0.5, -0.5);
    for (const { path, row, large } of outlines) {
      context.strokeStyle = state[row] === OPEN ? style.open : style.edge;
      if (large) context.stroke(path);
    }
    context.translate(0.5, 0.5);
  }

  /** What the colours stand for; nothing while nothing is known. @param {"light" | "dark"} theme @param {string} unit what densities are counted per */
  legend(theme, unit) {
    if (!this.known) return "";
    return html`<figure class="legend">
      <figcaption>participants per ${unit}</figcaption>
      <div class="strip" .style=${strip(theme)}></div>
      <div class="labels">${ticks(this.scale, 4).map((value) => html`<span .style=${`left:${100 * position(this.scale, value)}%`}>${short(value)}</span>`)}</div>
    </figure>`;
  }
}
