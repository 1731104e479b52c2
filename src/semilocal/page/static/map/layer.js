// The cells of a map: their colours, their legend, and the one under the pointer. Knows a frame and a canvas. Knows no pointer.

/** @import { Area } from "#map/camera.js" */
/** @import { Point, MapView } from "#map/view.js" */

import { html } from "#vendor/lit-html.js";
import * as cameras from "#map/camera.js";
import { Frame, NOTHING, OPEN } from "#map/cells.js";
import { position, ramp, robustScale, short, strip, ticks } from "#map/colours.js";

const EDGE_PIXELS = 5; // smaller cells have no outline: it would hide their colour
export class CellLayer {
  constructor() {
    this.frame = new Frame([]);
    this.scale = robustScale([]);
    this.hovered = this.piece = NOTHING;
  }

  /** @param {Frame} frame */
  show(frame) {
    this.frame = frame;
    this.hovered = this.piece = NOTHING;
    const cut = new Set(frame.pieces.map(({ row }) => row));
    this.scale = robustScale([...frame.densities.filter((_, row) => !cut.has(row)), ...frame.pieceDensities]);
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
    const row = this.frame.rows[this.hovered];
    return row ? (row.rings?.map((ring) => cameras.areaOf(cameras.pairs(ring))) ?? [row]) : [];
  }

  /** Fill cells and pieces, on whole pixels so that neighbours meet; then outline those that are large enough.
   * @param {CanvasRenderingContext2D} context @param {MapView} map */
  draw(context, { device, style, theme }) {
    const { frame } = this;
    const table = ramp(theme).map((rgb) => `rgb(${rgb.join()})`);
    const fill = (/** @type {number} */ value) => (Number.isNaN(value) ? style.unknown : table[Math.round(255 * position(this.scale, value))]);
    const place = (/** @type {number} */ x, /** @type {number} */ y) => /** @type {Point} */ (cameras.toScreen(device, x, y).map(Math.round));
    const shape = (/** @type {number[][]} */ rings) => {
      const path = new Path2D();
      for (const ring of rings) for (let i = 0; i < ring.length; i += 2) path[i ? "lineTo" : "moveTo"](...place(ring[i], ring[i + 1]));
      return path;
    };
    const values = frame.densities;
    const outlines = { [style.edge]: new Path2D(), [style.open]: new Path2D() };
    context.lineWidth = 1;
    for (const [row, { x0, y0, x1, y1, state, rings }] of frame.rows.entries()) {
      const [[left, top], [right, bottom]] = [place(x0, y1), place(x1, y0)];
      if (right < 0 || left > device.width || bottom < 0 || top > device.height) continue;
      const [across, down] = [Math.max(right - left, 1), Math.max(bottom - top, 1)]; // the smallest cells are the densest: they show as one pixel
      context.fillStyle = fill(values[row]);
      const path = rings && Math.max(across, down) > 2 ? shape(rings) : null;
      if (path) context.fill(path, "evenodd");
      else context.fillRect(left, top, across, down);
      const outline = outlines[state === OPEN ? style.open : style.edge];
      if (Math.min(across, down) < EDGE_PIXELS) continue;
      if (path) outline.addPath(path, new DOMMatrix([1, 0, 0, 1, -0.5, -0.5]));
      else outline.rect(left - 0.5, top - 0.5, across, down);
    }
    frame.pieceDensities.forEach((value, place) => {
      context.fillStyle = fill(value);
      context.fill(shape(frame.pieces[place].rings), "evenodd");
    });
    for (const [colour, path] of Object.entries(outlines)) {
      context.strokeStyle = colour;
      context.stroke(path);
    }
  }

  /** What the colours stand for; nothing while nothing is known. @param {"light" | "dark"} theme @param {string} unit what densities are counted per */
  legend(theme, unit) {
    const { scale, frame } = this;
    if (!frame.densities.some(Number.isFinite)) return "";
    return html`<figure class="legend">
      <figcaption>participants per ${unit}</figcaption>
      <img src=${strip(ramp(theme))} alt="" />
      <div class="labels">${ticks(scale, 4).map((value) => html`<span .style=${`left:${100 * position(scale, value)}%`}>${short(value)}</span>`)}</div>
    </figure>`;
  }
}
