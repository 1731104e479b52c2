// A map of cells: their colours, the one under the pointer, and areas that are drawn on it.
// Knows the browser's canvas. Knows no campaigns and no server.

import * as cameras from "#map/camera.js";
import { Frame } from "#map/cells.js";
import { pixel, position, ramp, robustScale } from "#map/colours.js";
import { PlainMap } from "#map/plain.js";
import { locate, locatePieces, NOTHING, paint } from "#map/raster.js";

const NEAR = 9; // pixels: a click this close to the first corner closes the polygon
const SAME = 3; // pixels: the second click of a double click

/** @typedef {[number, number]} Point */

export class Pen {
  constructor() {
    /** @type {Point[]} */
    this.corners = [];
  }

  /** Set a corner at a pixel; the polygon if this closed it.
   * @param {import("#map/camera.js").Camera} camera @param {import("#map/camera.js").Domain} domain @param {Point} at
   * @returns {import("#map/camera.js").Area | null} */
  add(camera, domain, at) {
    /** @param {Point} corner */
    const distance = ([x, y]) => {
      const [left, top] = cameras.toScreen(camera, x, y);
      return Math.hypot(left - at[0], top - at[1]);
    };
    const last = this.corners.at(-1);
    if (last && distance(last) < SAME) return null;
    if (this.corners.length > 2 && distance(this.corners[0]) < NEAR) return this.close();
    const whole = cameras.bounds(domain);
    const [x, y] = cameras.toWorld(camera, ...at);
    this.corners = [...this.corners, [Math.min(Math.max(x, whole.x0), whole.x1), Math.min(Math.max(y, whole.y0), whole.y1)]];
    return null;
  }

  /** The polygon, if it has three corners or more; the pen is free again. @returns {import("#map/camera.js").Area | null} */
  close() {
    if (this.corners.length < 3) return null;
    const ring = this.corners;
    this.corners = [];
    return cameras.areaOf(ring);
  }

  /** Take the last corner back. @returns {null} */
  undo() {
    this.corners = this.corners.slice(0, -1);
    return null;
  }

  /** Begin again. @returns {null} */
  clear() {
    this.corners = [];
    return null;
  }
}

/**
 * @typedef {import("#map/camera.js").Area} Area
 * @typedef {"" | "rectangle" | "polygon"} Asking
 * @typedef {import("#map/cells.js").Colour} Colour
 * @typedef {import("#map/colours.js").Scale} Scale
 */

const COLOURS = {
  light: {
    background: [232, 237, 240], edge: [122, 128, 140], open: [214, 132, 40], unknown: [216, 222, 226],
  },
  dark: {
    background: [13, 19, 24], edge: [70, 78, 92], open: [230, 160, 70], unknown: [36, 47, 56],
  },
};
const RULES = { density: { log: true }, crowd: { log: true }, depth: { log: false, integer: true }, uncertainty: { log: true } };
const WORDS = "Map. Arrow keys move, plus and minus zoom, 0 shows everything. While a polygon is drawn, space sets a corner, Enter closes it.";

export class MapView extends PlainMap {
  /**
   * @param {import("#map/camera.js").Domain} domain
   * @param {{theme?: "light" | "dark", onHover?: (row: number) => void, onSelect?: (area: Area | null) => void}} [options] onSelect: null if what was drawn is outside the domain
   */
  constructor(domain, { theme = "light", onHover = () => {}, onSelect = () => {} } = {}) {
    super(domain, theme, WORDS);
    this.onHover = onHover;
    this.onSelect = onSelect;
    this.frame = new Frame([]);
    /** @type {Colour} */
    this.colour = "density";
    /** @type {Scale} */
    this.scale = robustScale([]);
    /** @type {Asking} */
    this.asking = "";
    this.pen = new Pen();
    this.hovered = NOTHING;
    this.piece = NOTHING; // under the pointer
    this.index = new Int32Array(0);
    this.inner = new Int32Array(0);
    this.ramp = ramp(theme);
    /** @type {[number, number] | null} where a rectangle or a click began */
    this.corner = null;
    /** @type {[number, number] | null} where the rectangle ends now */
    this.far = null;
    this.top.addEventListener("pointerleave", () => this.#hover(NOTHING));
  }

  // -- what is shown ---------------------------------------------------------------------------------------------

  /** @param {Frame} frame */
  show(frame) {
    this.frame = frame;
    this.#rescale();
    this.hovered = NOTHING;
    this.draw({ geometry: true, colours: true, top: true });
    this.pointAtCross();
  }

  /** @param {Colour} colour */
  setColour(colour) {
    this.colour = colour;
    this.#rescale();
    this.draw({ colours: true });
  }

  /** @param {"light" | "dark"} theme */
  setTheme(theme) {
    this.ramp = ramp(theme);
    super.setTheme(theme);
  }

  /** What is drawn: dragging draws a rectangle, clicks or keys set the corners of a polygon. @param {Asking} asking */
  setAsking(asking) {
    this.asking = asking;
    this.pen.clear();
    this.top.classList.toggle("asking", asking !== "");
    this.draw({ top: true });
  }

  #rescale() {
    this.values = this.frame.values(this.colour);
    this.pieceValues = this.frame.pieceValues(this.colour);
    const cut = new Set(this.pieceValues.length ? this.frame.pieces.map(({ row }) => row) : []);
    const shown = [...this.values.filter((_, row) => !cut.has(row)), ...this.pieceValues];
    this.scale = robustScale(shown, RULES[this.colour]);
  }

  // -- areas that are drawn --------------------------------------------------------------------------------------

  /** @param {[number, number]} at */
  pressed(at) {
    this.corner = this.asking && this.pointers.size === 1 ? at : null;
    this.far = null;
  }

  /** @param {[number, number]} at */
  dragged(at) {
    if (!this.corner || this.asking !== "rectangle") return false;
    this.far = at;
    this.draw({ top: true });
    return true;
  }

  /** @param {[number, number] | null} at */
  released(at) {
    const { corner, far } = this;
    this.corner = this.far = null;
    this.draw({ top: true });
    if (!at || !corner) return;
    const moved = Math.hypot(at[0] - corner[0], at[1] - corner[1]) > 4;
    if (this.asking === "polygon" && !moved) this.#polygon(this.pen.add(this.camera, this.domain, at));
    if (this.asking === "rectangle" && moved && far) this.onSelect(cameras.selection(this.camera, this.domain, corner, far));
  }

  /** @param {number} left @param {number} top */
  clickedTwice(left, top) {
    if (this.asking === "polygon") this.#polygon(this.pen.close());
    else super.clickedTwice(left, top);
  }

  /** Ask about a polygon that was closed, and draw what there is of one. @param {Area | null} area */
  #polygon(area) {
    this.draw({ top: true });
    if (area) this.onSelect(area);
  }

  /** Keys that draw a polygon with the cross in the middle of the map. @returns {Record<string, () => void>} */
  keys() {
    const { camera, domain, pen } = this;
    if (this.asking !== "polygon") return {};
    return {
      " ": () => this.#polygon(pen.add(camera, domain, this.middle)),
      Enter: () => this.#polygon(pen.close()),
      Backspace: () => this.#polygon(pen.undo()),
      Escape: () => this.#polygon(pen.clear()),
    };
  }

  // -- the cell under the pointer --------------------------------------------------------------------------------

  /** @param {number} left @param {number} top */
  pointAt(left, top) {
    if (this.needs.geometry) this.#geometry();
    const [x, y] = [Math.floor(left * this.ratio), Math.floor(top * this.ratio)];
    const outside = x < 0 || y < 0 || x >= this.base.width || y >= this.base.height;
    const place = outside ? -1 : y * this.base.width + x;
    this.#hover(this.index[place] ?? NOTHING, this.inner[place] ?? NOTHING);
  }

  /** @param {number} row @param {number} [piece] */
  #hover(row, piece = NOTHING) {
    if (row === this.hovered && piece === this.piece) return;
    [this.hovered, this.piece] = [row, piece];
    this.draw({ top: true });
    this.onHover(row);
  }

  // -- drawing ---------------------------------------------------------------------------------------------------

  resized() {
    this.index = new Int32Array(this.base.width * this.base.height);
    this.inner = new Int32Array(this.index.length);
    this.image = new ImageData(this.base.width, this.base.height);
  }

  #geometry() {
    locate(this.index, this.frame, this.device);
    locatePieces(this.inner, this.frame, this.device);
    this.needs.geometry = false;
  }

  /** @param {CanvasRenderingContext2D} context */
  paintGround(context) {
    if (!this.frame.size) return super.paintGround(context);
    if (this.needs.geometry) this.#geometry();
    const colours = COLOURS[this.theme];
    /** @param {number[]} rgb */
    const solid = (rgb) => pixel(/** @type {[number, number, number]} */ (rgb));
    const table = this.ramp.map(pixel);
    /** @param {ArrayLike<number>} values */
    const coloured = (values) => Uint32Array.from(values, (value) => (Number.isNaN(value) ? solid(colours.unknown) : table[Math.round(255 * position(this.scale, value))]));
    const inner = this.pieceValues?.length ? { index: this.inner, colours: coloured(this.pieceValues) } : null;
    const image = /** @type {ImageData} */ (this.image);
    paint(new Uint32Array(image.data.buffer), this.index, this.frame, this.device, coloured(this.values ?? []), inner, {
      background: solid(colours.background), edge: solid(colours.edge), open: solid(colours.open),
    });
    context.putImageData(image, 0, 0);
  }

  /** @param {CanvasRenderingContext2D} context */
  paintOver(context) {
    const { mark, text } = this.style;
    if (this.corner && this.far) {
      const rect = cameras.selection(this.camera, this.domain, this.corner, this.far);
      if (rect) this.outline(context, rect, mark, "");
    }
    this.#drawPen(context, mark);
    if (this.hovered !== NOTHING && this.hovered < this.frame.size) {
      const { x0, y0, x1, y1 } = this.frame.row(this.hovered);
      const rings = this.frame.rings(this.hovered) ?? [[]];
      for (const ring of rings) this.outline(context, { x0, y0, x1, y1, ...(ring.length ? { ring: cameras.pairs(ring) } : {}) }, text, "");
    }
  }

  /** The corners of a polygon that is not closed yet. @param {CanvasRenderingContext2D} context @param {string} colour */
  #drawPen(context, colour) {
    const corners = this.pen.corners.map(([x, y]) => cameras.toScreen(this.camera, x, y));
    if (!corners.length) return;
    const line = new Path2D();
    for (const [left, top] of corners) line.lineTo(left, top);
    this.stroke(context, line, colour);
    context.fillStyle = colour;
    for (const [left, top] of corners) context.fillRect(left - 3.5, top - 3.5, 7, 7);
  }

  /** The map as a PNG. @returns {Promise<Blob>} */
  picture() {
    this.drawNow();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [this.base.width, this.base.height];
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    context.drawImage(this.base, 0, 0);
    context.drawImage(this.top, 0, 0);
    return new Promise((resolve, reject) => canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("no picture"))), "image/png"));
  }
}
