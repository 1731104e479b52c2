// A map on the page: cells, coastlines, graticule and scale bar; moved by pointer, touch and keys.
// Knows the browser's canvas. Knows no campaigns and no server.

import * as cameras from "#map/camera.js";
import { Frame } from "#map/cells.js";
import { label, lines, scaleBar } from "#map/measure.js";
import { Pen } from "#map/pen.js";
import { NOTHING, locate, paint } from "#map/raster.js";
import { pixel, position, ramp, robustScale } from "#map/scale.js";

/**
 * @typedef {import("#map/camera.js").Area} Area
 * @typedef {"" | "rectangle" | "polygon"} Asking
 * @typedef {import("#map/cells.js").Colour} Colour
 * @typedef {import("#map/scale.js").Scale} Scale
 */

const STYLES = {
  light: {
    background: [232, 237, 240], edge: [255, 255, 255], open: [214, 132, 40], hatch: [205, 211, 215], hollow: [240, 242, 243],
    coast: "#44525c", grid: "rgba(60,80,95,0.22)", text: "#2b3942", halo: "rgba(250,252,252,0.85)", mark: "#b3261e",
    unknown: [216, 222, 226],
  },
  dark: {
    background: [13, 19, 24], edge: [16, 24, 31], open: [230, 160, 70], hatch: [48, 58, 66], hollow: [22, 30, 36],
    coast: "#a9b8c2", grid: "rgba(190,210,225,0.17)", text: "#dfe8ed", halo: "rgba(13,19,24,0.8)", mark: "#ff8a80",
    unknown: [36, 47, 56],
  },
};
const RULES = { density: { log: true }, crowd: { log: true }, depth: { log: false, integer: true }, uncertainty: { log: true } };
const STEP = 60; // pixels that an arrow key moves

export class MapView {
  /**
   * @param {import("#map/camera.js").Domain} domain
   * @param {{theme?: "light" | "dark", onHover?: (row: number) => void, onSelect?: (area: Area) => void}} [options]
   */
  constructor(domain, { theme = "light", onHover = () => {}, onSelect = () => {} } = {}) {
    this.domain = domain;
    this.onHover = onHover;
    this.onSelect = onSelect;
    this.element = document.createElement("div");
    this.element.className = "map";
    this.base = this.element.appendChild(document.createElement("canvas"));
    this.top = this.element.appendChild(document.createElement("canvas"));
    this.top.tabIndex = 0;
    this.top.setAttribute("role", "application");
    this.top.setAttribute("aria-label", "Map. Arrow keys move, plus and minus zoom, 0 shows everything. While a polygon is drawn, space sets a corner, Enter closes it.");
    this.frame = new Frame([]);
    /** @type {Colour} */
    this.colour = "density";
    /** @type {Scale} */
    this.scale = robustScale([]);
    /** @type {Asking} */
    this.asking = "";
    this.pen = new Pen();
    this.hovered = NOTHING;
    /** @type {Area[]} */
    this.marks = [];
    this.index = new Int32Array(0);
    this.coast = new Path2D();
    this.camera = cameras.fit(domain, 600, 400);
    this.untouched = true;
    this.theme = theme;
    this.ramp = ramp(theme);
    /** @type {Map<number, [number, number]>} */
    this.pointers = new Map();
    /** @type {[number, number] | null} */
    this.corner = null;
    this.needs = { geometry: true, colours: true, top: true };
    this.scheduled = 0;
    this.#listen();
    new ResizeObserver(() => this.#measure()).observe(this.element);
  }

  // -- what is shown ---------------------------------------------------------------------------------------------

  /** @param {Frame} frame @param {Scale} [scale] colours of other frames, to keep one scale over time */
  show(frame, scale) {
    this.frame = frame;
    this.#rescale(scale);
    this.hovered = NOTHING;
    this.#draw({ geometry: true, colours: true, top: true });
  }

  /** @param {Colour} colour @param {Scale} [scale] */
  setColour(colour, scale) {
    this.colour = colour;
    this.#rescale(scale);
    this.#draw({ colours: true });
  }

  /** @param {"light" | "dark"} theme */
  setTheme(theme) {
    this.theme = theme;
    this.ramp = ramp(theme);
    this.#draw({ colours: true, top: true });
  }

  /** @param {number[][]} pieces each x, y, x, y, … */
  setCoast(pieces) {
    this.coast = new Path2D();
    for (const piece of pieces) {
      this.coast.moveTo(piece[0], -piece[1]);
      for (let place = 2; place < piece.length; place += 2) this.coast.lineTo(piece[place], -piece[place + 1]);
    }
    this.#draw({ colours: true });
  }

  /** Areas that were asked about. @param {Area[]} marks */
  setMarks(marks) {
    this.marks = marks;
    this.#draw({ top: true });
  }

  /** What is drawn: dragging draws a rectangle, clicks or keys set the corners of a polygon. @param {Asking} asking */
  setAsking(asking) {
    this.asking = asking;
    this.pen.clear();
    this.top.classList.toggle("asking", asking !== "");
    this.#draw({ top: true });
  }

  /** @param {Scale} [scale] */
  #rescale(scale) {
    this.values = this.frame.values(this.colour);
    this.scale = scale ?? robustScale(this.values, RULES[this.colour]);
  }

  // -- moving ----------------------------------------------------------------------------------------------------

  /** @param {number} factor @param {number} [left] @param {number} [top] */
  zoom(factor, left, top) {
    this.untouched = false;
    this.#look(cameras.zoom(this.camera, this.domain, factor, left, top));
  }

  /** @param {number} right @param {number} down */
  pan(right, down) {
    this.untouched = false;
    this.#look(cameras.pan(this.camera, this.domain, right, down));
  }

  /** Show the whole domain. */
  home() {
    this.untouched = true;
    this.#look(cameras.fit(this.domain, this.camera.width, this.camera.height));
  }

  /** @param {import("#map/camera.js").Camera} camera */
  #look(camera) {
    this.camera = camera;
    this.#draw({ geometry: true, colours: true, top: true });
    if (this.top.matches(":focus-visible")) this.#hoverAt(camera.width / 2, camera.height / 2);
  }

  #measure() {
    const { clientWidth: width, clientHeight: height } = this.element;
    if (!width || !height) return;
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    for (const canvas of [this.base, this.top]) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    this.ratio = ratio;
    this.index = new Int32Array(this.base.width * this.base.height);
    this.image = new ImageData(this.base.width, this.base.height);
    this.camera = this.untouched
      ? cameras.fit(this.domain, width, height)
      : cameras.resize(this.camera, this.domain, width, height);
    this.#draw({ geometry: true, colours: true, top: true });
  }

  #listen() {
    const { top } = this;
    top.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), event.offsetX, event.offsetY);
    }, { passive: false });
    top.addEventListener("dblclick", (event) => {
      if (this.asking === "polygon") this.#polygon(this.pen.close());
      else this.zoom(2, event.offsetX, event.offsetY);
    });
    top.addEventListener("pointerdown", (event) => {
      top.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
      this.#hoverAt(event.offsetX, event.offsetY); // a finger does not hover: it touches
      const alone = this.pointers.size === 1;
      this.corner = this.asking === "rectangle" && alone ? [event.offsetX, event.offsetY] : null;
      this.pressed = this.asking === "polygon" && alone ? [event.offsetX, event.offsetY] : undefined;
    });
    top.addEventListener("pointermove", (event) => this.#moved(event));
    for (const name of ["pointerup", "pointercancel"]) {
      top.addEventListener(name, (event) => this.#released(/** @type {PointerEvent} */ (event), name === "pointerup"));
    }
    top.addEventListener("pointerleave", () => this.#hover(NOTHING));
    top.addEventListener("keydown", (event) => this.#key(event));
    top.addEventListener("focus", () => {
      this.#draw({ top: true });
      if (top.matches(":focus-visible")) this.#hoverAt(this.camera.width / 2, this.camera.height / 2);
    });
    top.addEventListener("blur", () => this.#draw({ top: true }));
  }

  /** @param {PointerEvent} event */
  #moved(event) {
    const before = this.pointers.get(event.pointerId);
    /** @type {[number, number]} */
    const now = [event.offsetX, event.offsetY];
    if (!before) {
      this.#hoverAt(...now);
      return;
    }
    this.pointers.set(event.pointerId, now);
    if (this.corner) {
      this.dragged = now;
      this.#draw({ top: true });
    } else if (this.pointers.size === 1) {
      this.pan(now[0] - before[0], now[1] - before[1]);
    } else if (this.pointers.size === 2) {
      const [other] = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
      const distance = (/** @type {[number, number]} */ at) => Math.hypot(at[0] - other[0], at[1] - other[1]) || 1;
      this.zoom(distance(now) / distance(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
      this.pan((now[0] - before[0]) / 2, (now[1] - before[1]) / 2);
    }
  }

  /** @param {PointerEvent} event @param {boolean} done */
  #released(event, done) {
    this.pointers.delete(event.pointerId);
    const [from, to] = [this.corner, this.dragged];
    this.corner = null;
    this.dragged = undefined;
    this.#draw({ top: true });
    const { pressed } = this;
    this.pressed = undefined;
    if (done && pressed && Math.hypot(event.offsetX - pressed[0], event.offsetY - pressed[1]) <= 4) {
      this.#polygon(this.pen.add(this.camera, this.domain, [event.offsetX, event.offsetY]));
    }
    if (!done || !from) return;
    const far = to && Math.hypot(to[0] - from[0], to[1] - from[1]) > 4;
    const rect = far && to ? cameras.selection(this.camera, this.domain, from, to) : null;
    if (rect) this.onSelect(rect);
  }

  /** Ask about a polygon that was closed, and draw what there is of one. @param {Area | null} area */
  #polygon(area) {
    this.#draw({ top: true });
    if (area) this.onSelect(area);
  }

  /** Keys that draw a polygon with the cross in the middle of the map. @returns {Record<string, () => void>} */
  #drawing() {
    const { camera, domain, pen } = this;
    return {
      " ": () => this.#polygon(pen.add(camera, domain, [camera.width / 2, camera.height / 2])),
      Enter: () => this.#polygon(pen.close()),
      Backspace: () => this.#polygon(pen.undo()),
      Escape: () => this.#polygon(pen.clear()),
    };
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const far = event.shiftKey ? 4 : 1;
    /** @type {Record<string, () => void>} */
    const actions = {
      ArrowLeft: () => this.pan(STEP * far, 0),
      ArrowRight: () => this.pan(-STEP * far, 0),
      ArrowUp: () => this.pan(0, STEP * far),
      ArrowDown: () => this.pan(0, -STEP * far),
      "+": () => this.zoom(1.5),
      "=": () => this.zoom(1.5),
      "-": () => this.zoom(1 / 1.5),
      0: () => this.home(),
      ...(this.asking === "polygon" ? this.#drawing() : {}),
    };
    const action = event.ctrlKey || event.metaKey || event.altKey ? undefined : actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  /** @param {number} left @param {number} top */
  #hoverAt(left, top) {
    if (this.needs.geometry) this.#geometry();
    const ratio = this.ratio ?? 1;
    const [x, y] = [Math.floor(left * ratio), Math.floor(top * ratio)];
    const outside = x < 0 || y < 0 || x >= this.base.width || y >= this.base.height;
    this.#hover(outside ? NOTHING : this.index[y * this.base.width + x]);
  }

  /** @param {number} row */
  #hover(row) {
    if (row === this.hovered) return;
    this.hovered = row;
    this.#draw({ top: true });
    this.onHover(row);
  }

  // -- drawing ---------------------------------------------------------------------------------------------------

  /** @param {{geometry?: boolean, colours?: boolean, top?: boolean}} needs */
  #draw(needs) {
    Object.assign(this.needs, needs);
    if (!this.scheduled) this.scheduled = requestAnimationFrame(() => this.drawNow());
  }

  /** Draw what has changed, now; milliseconds it took. */
  drawNow() {
    this.scheduled = 0;
    const began = performance.now();
    if (!this.image) return 0;
    if (this.needs.geometry) this.#geometry();
    if (this.needs.colours) this.#colours();
    if (this.needs.top) this.#top();
    this.needs = { geometry: false, colours: false, top: false };
    return performance.now() - began;
  }

  /** The camera in pixels of the screen. */
  get #device() {
    const ratio = this.ratio ?? 1;
    const { base } = this;
    return { ...this.camera, scale: this.camera.scale * ratio, width: base.width, height: base.height };
  }

  #geometry() {
    locate(this.index, this.frame, this.#device);
    this.needs.geometry = false;
  }

  #colours() {
    const style = STYLES[this.theme];
    /** @param {number[]} rgb */
    const solid = (rgb) => pixel(/** @type {[number, number, number]} */ (rgb));
    const table = this.ramp.map(pixel);
    const values = this.values ?? new Float64Array(0);
    const colours = new Uint32Array(this.frame.size);
    for (let row = 0; row < colours.length; row++) {
      const value = values[row];
      colours[row] = Number.isNaN(value) ? solid(style.unknown) : table[Math.round(255 * position(this.scale, value))];
    }
    const image = /** @type {ImageData} */ (this.image);
    paint(new Uint32Array(image.data.buffer), this.index, this.frame, this.#device, colours, {
      background: solid(style.background), edge: solid(style.edge), open: solid(style.open), hatch: solid(style.hatch),
      hollow: solid(style.hollow),
    });
    const context = /** @type {CanvasRenderingContext2D} */ (this.base.getContext("2d"));
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.putImageData(image, 0, 0);
    this.#drawCoast(context);
    context.setTransform(this.ratio ?? 1, 0, 0, this.ratio ?? 1, 0, 0);
    this.#drawGrid(context);
    this.#drawBar(context);
  }

  /** @param {CanvasRenderingContext2D} context */
  #drawCoast(context) {
    const { scale, aspect, width, height, x, y } = this.#device;
    // The path is moved, not the canvas: lines keep their width.
    const path = new Path2D();
    const move = [scale, 0, 0, scale * aspect, width / 2 - x * scale, height / 2 + y * scale * aspect];
    path.addPath(this.coast, new DOMMatrix(move));
    context.strokeStyle = STYLES[this.theme].coast;
    context.lineWidth = 1.1 * (this.ratio ?? 1);
    context.lineJoin = "round";
    context.stroke(path);
  }

  /** @param {CanvasRenderingContext2D} context */
  #drawGrid(context) {
    const { camera, domain } = this;
    const style = STYLES[this.theme];
    const [west, north] = cameras.toWorld(camera, 0, 0);
    const [east, south] = cameras.toWorld(camera, camera.width, camera.height);
    const whole = cameras.bounds(domain);
    const across = lines(Math.max(west, whole.x0), Math.min(east, whole.x1), Math.max(2, camera.width / 150), domain.geographic);
    const up = lines(Math.max(south, whole.y0), Math.min(north, whole.y1), Math.max(2, camera.height / 110), domain.geographic);
    context.lineWidth = 1;
    context.font = "11px system-ui, sans-serif";
    context.strokeStyle = style.grid;
    context.beginPath();
    const [left, over] = cameras.toScreen(camera, Math.max(west, whole.x0), Math.min(north, whole.y1));
    const [right, under] = cameras.toScreen(camera, Math.min(east, whole.x1), Math.max(south, whole.y0));
    for (const value of across.at) {
      const [place] = cameras.toScreen(camera, value, camera.y);
      context.moveTo(Math.round(place) + 0.5, over);
      context.lineTo(Math.round(place) + 0.5, under);
    }
    const flat = domain.lower.length === 1;
    for (const value of flat ? [] : up.at) {
      const [, place] = cameras.toScreen(camera, camera.x, value);
      context.moveTo(left, Math.round(place) + 0.5);
      context.lineTo(right, Math.round(place) + 0.5);
    }
    context.stroke();
    context.textAlign = "center";
    context.textBaseline = "bottom";
    const bottom = Math.min(under + 16, camera.height - 3);
    for (const value of across.at) {
      const [place] = cameras.toScreen(camera, value, camera.y);
      if (place > 150 || bottom < camera.height - 30) this.#text(context, label(value, 0, across.step, domain.geographic), place, bottom);
    }
    context.textAlign = "left";
    context.textBaseline = "middle";
    for (const value of flat ? [] : up.at) {
      const [, place] = cameras.toScreen(camera, camera.x, value);
      if (place > 12 && place < camera.height - 40) this.#text(context, label(value, 1, up.step, domain.geographic), 5, place);
    }
    if (!domain.geographic) {
      context.textAlign = "right";
      this.#text(context, domain.names[0], camera.width - 6, Math.min(under + 10, camera.height - 24));
      context.textAlign = "left";
      if (!flat) this.#text(context, domain.names[1], 5, Math.max(over - 8, 10));
    }
  }

  /** @param {CanvasRenderingContext2D} context */
  #drawBar(context) {
    if (!this.domain.geographic) return;
    const { pixels, text } = scaleBar(this.camera, true);
    const [left, bottom] = [12, this.camera.height - 12];
    const style = STYLES[this.theme];
    for (const [colour, width] of /** @type {[string, number][]} */ ([[style.halo, 5], [style.text, 1.5]])) {
      context.strokeStyle = colour;
      context.lineWidth = width;
      context.beginPath();
      context.moveTo(left, bottom - 5);
      context.lineTo(left, bottom);
      context.lineTo(left + pixels, bottom);
      context.lineTo(left + pixels, bottom - 5);
      context.stroke();
    }
    context.textAlign = "left";
    context.textBaseline = "bottom";
    this.#text(context, text, left + 5, bottom - 3);
  }

  /** @param {CanvasRenderingContext2D} context @param {string} text @param {number} x @param {number} y */
  #text(context, text, x, y) {
    context.lineJoin = "round";
    context.lineWidth = 3;
    context.strokeStyle = STYLES[this.theme].halo;
    context.strokeText(text, x, y);
    context.fillStyle = STYLES[this.theme].text;
    context.fillText(text, x, y);
  }

  #top() {
    const context = /** @type {CanvasRenderingContext2D} */ (this.top.getContext("2d"));
    const ratio = this.ratio ?? 1;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.camera.width, this.camera.height);
    const style = STYLES[this.theme];
    this.marks.forEach((mark, number) => this.#outline(context, mark, style.mark, String(number + 1)));
    if (this.corner && this.dragged) {
      const rect = cameras.selection(this.camera, this.domain, this.corner, this.dragged);
      if (rect) this.#outline(context, rect, style.mark, "");
    }
    this.#drawPen(context, style.mark);
    if (this.hovered !== NOTHING && this.hovered < this.frame.size) {
      const { x0, y0, x1, y1 } = this.frame.row(this.hovered);
      this.#outline(context, { x0, y0, x1, y1 }, style.text, "");
    }
    if (this.top.matches(":focus-visible")) {
      const [x, y] = [this.camera.width / 2, this.camera.height / 2];
      context.strokeStyle = style.text;
      context.lineWidth = 1.5;
      context.beginPath();
      for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
        context.moveTo(x + 4 * dx, y + 4 * dy);
        context.lineTo(x + 13 * dx, y + 13 * dy);
      }
      context.stroke();
    }
  }

  /** The corners of a polygon that is not closed yet. @param {CanvasRenderingContext2D} context @param {string} colour */
  #drawPen(context, colour) {
    const corners = this.pen.corners.map(([x, y]) => cameras.toScreen(this.camera, x, y));
    if (!corners.length) return;
    const line = new Path2D();
    for (const [left, top] of corners) line.lineTo(left, top);
    this.#stroke(context, line, colour);
    context.fillStyle = colour;
    for (const [left, top] of corners) context.fillRect(left - 3.5, top - 3.5, 7, 7);
  }

  /** A line with a halo. @param {CanvasRenderingContext2D} context @param {Path2D} line @param {string} colour */
  #stroke(context, line, colour) {
    for (const [style, width] of /** @type {[string, number][]} */ ([[STYLES[this.theme].halo, 4], [colour, 2]])) {
      context.strokeStyle = style;
      context.lineWidth = width;
      context.stroke(line);
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {Area} area @param {string} colour @param {string} name */
  #outline(context, area, colour, name) {
    const { x0, y0, x1, y1 } = area;
    const line = new Path2D();
    for (const [x, y] of area.ring ?? [[x0, y0], [x1, y0], [x1, y1], [x0, y1]]) line.lineTo(...cameras.toScreen(this.camera, x, y));
    line.closePath();
    this.#stroke(context, line, colour);
    const [left, top] = cameras.toScreen(this.camera, x0, y1);
    if (!name) return;
    context.font = "600 12px system-ui, sans-serif";
    context.textAlign = "left";
    context.textBaseline = "top";
    this.#text(context, name, left + 5, top + 4);
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
