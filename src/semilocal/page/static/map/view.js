// A map: land and sea, cities, lines, areas that are drawn on it, and what a layer draws below. Moved by pointer, touch and keys, with
// a cross in the middle for keys. Knows the browser's canvas. Knows no campaigns and no server.

/** @import { Area, Camera, Domain, Rect } from "#map/camera.js" */
/** @import { CellLayer } from "#map/layer.js" */

import * as cameras from "#map/camera.js";
import { label, lines, scaleBar } from "#map/camera.js";

/** @typedef {[number, number]} Point left and top in pixels */

/** What lies behind and over the cells (io/basemap.py makes it): rings are x, y, then steps, in whole numbers of step.
 * @typedef {{step: number, land: number[][], narrowest: number, cities: [string, string, number, number][], credit: string}} Ground */

const STYLES = {
  light: {
    land: "#f4f1e6", outside: "#e8edf0", sea: "rgba(188,212,230,0.78)", coast: "#2c3e4a", grid: "rgba(60,80,95,0.22)", text: "#2b3942",
    halo: "rgba(250,252,252,0.85)", mark: "#b3261e", edge: "#7a808c", open: "#d68428", unknown: "#d8dee2",
  },
  dark: {
    land: "#1a222a", outside: "#0d1318", sea: "rgba(16,34,48,0.8)", coast: "#a9b8c2", grid: "rgba(190,210,225,0.17)", text: "#dfe8ed",
    halo: "rgba(13,19,24,0.8)", mark: "#ff8a80", edge: "#464e5c", open: "#e6a046", unknown: "#242f38",
  },
};
const STEP = 60; // pixels that an arrow key moves
const ROOM = 26_000; // square pixels of the map that a name of a city has for itself
const SLIP = 4; // pixels that a pointer may slip in a click
const WORDS = "Map. Arrow keys move, plus and minus zoom, 0 shows everything.";
const dark = matchMedia("(prefers-color-scheme: dark)");

/** A path of rings, north at the top. @param {number[][]} rings @param {number} step */
function pathOf(rings, step) {
  const path = new Path2D();
  for (const line of rings) {
    let [x, y] = [0, 0];
    for (let place = 0; place < line.length; place += 2) {
      [x, y] = [x + line[place], y + line[place + 1]];
      if (place) path.lineTo(x * step, -y * step);
      else path.moveTo(x * step, -y * step);
    }
  }
  return path;
}

export class MapView {
  /**
   * @param {Domain} domain
   * @param {{words?: string, onHover?: () => void, onSelect?: (area: Area | null) => void, onClick?: (x: number, y: number) => void}} [options]
   *   onSelect: null if what was drawn is outside the domain; without onClick, a click of a mouse zooms
   */
  constructor(domain, { words = WORDS, onHover = () => {}, onSelect = () => {}, onClick } = {}) {
    this.domain = domain;
    this.onHover = onHover;
    this.onSelect = onSelect;
    this.onClick = onClick;
    this.onMove = () => {}; // another part is seen
    this.element = document.createElement("div");
    this.element.className = "map";
    this.base = this.element.appendChild(document.createElement("canvas"));
    this.top = this.element.appendChild(document.createElement("canvas"));
    this.top.tabIndex = 0;
    this.top.setAttribute("role", "application");
    this.top.setAttribute("aria-label", words);
    /** @type {CellLayer | null} */
    this.layer = null;
    /** @type {Area[]} */
    this.marks = [];
    this.numbered = true; // whether marks have numbers
    /** @type {Ground | null} */
    this.ground = null;
    this.land = new Path2D();
    /** @type {number[][]} left, top, right, bottom of what is written */
    this.written = [];
    this.asking = false; // whether dragging draws a rectangle
    /** @type {Map<number, Point>} */
    this.pointers = new Map();
    /** @type {Point | null} where a rectangle or a click began */
    this.down = null;
    /** @type {Point | null} where the rectangle ends now */
    this.far = null;
    this.camera = cameras.fit(domain, 600, 400);
    this.ratio = 1;
    this.untouched = true;
    this.measured = this.stale = false;
    this.scheduled = 0;
    this.#listen();
    dark.addEventListener("change", () => this.draw());
    new ResizeObserver(() => this.#measure()).observe(this.element);
  }

  // -- what is shown ---------------------------------------------------------------------------------------------

  get theme() {
    return dark.matches ? "dark" : "light";
  }

  get style() {
    return STYLES[this.theme];
  }

  /** @param {Ground} ground */
  setGround(ground) {
    this.ground = ground;
    this.land = pathOf(ground.land, ground.step);
    this.draw();
  }

  /** Areas that were asked about. @param {Area[]} marks */
  setMarks(marks) {
    this.marks = marks;
    this.draw(false);
  }

  /** @param {boolean} asking whether dragging draws a rectangle */
  setAsking(asking) {
    this.asking = asking;
    this.top.classList.toggle("asking", asking);
  }

  // -- moving ----------------------------------------------------------------------------------------------------

  /** @param {number} factor @param {number} [left] @param {number} [top] */
  zoom(factor, left, top) {
    this.#look(cameras.zoom(this.camera, this.domain, factor, left, top));
  }

  /** @param {number} right @param {number} down */
  pan(right, down) {
    this.#look(cameras.pan(this.camera, this.domain, right, down));
  }

  /** Show the whole domain. */
  home() {
    this.#look(cameras.fit(this.domain, this.camera.width, this.camera.height), true);
  }

  /** Show a part of the domain. @param {Rect} part @param {number} [margin] pixels */
  lookAt(part, margin = 24) {
    const { width, height } = this.camera;
    const { x, y, scale } = cameras.fit(this.domain, width, height, margin, part);
    this.#look(cameras.zoom({ ...cameras.fit(this.domain, width, height), x, y, scale }, this.domain, 1));
  }

  /** What is seen: the middle, and how many units are across. @returns {[number, number, number] | null} null for all */
  get seen() {
    return this.untouched ? null : [this.camera.x, this.camera.y, this.camera.width / this.camera.scale];
  }

  /** The pixel under the cross. @returns {Point} */
  get middle() {
    return [this.camera.width / 2, this.camera.height / 2];
  }

  /** @param {Camera} camera */
  #look(camera, untouched = false) {
    [this.camera, this.untouched] = [camera, untouched];
    this.onMove();
    this.draw();
    this.#pointAtCross();
  }

  #measure() {
    const { clientWidth: width, clientHeight: height } = this.element;
    if (!width || !height) return;
    this.ratio = Math.min(window.devicePixelRatio || 1, 2);
    for (const canvas of [this.base, this.top]) {
      canvas.width = Math.round(width * this.ratio);
      canvas.height = Math.round(height * this.ratio);
    }
    this.camera = this.untouched ? cameras.fit(this.domain, width, height) : cameras.resize(this.camera, this.domain, width, height);
    this.measured = true;
    this.draw();
  }

  // -- pointers and keys -----------------------------------------------------------------------------------------

  #listen() {
    const { top } = this;
    top.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), event.offsetX, event.offsetY);
    }, { passive: false });
    top.addEventListener("pointerdown", (event) => {
      top.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
      this.#pointAt(event.offsetX, event.offsetY); // a finger does not hover: it touches
      this.down = this.pointers.size === 1 ? [event.offsetX, event.offsetY] : null;
      this.far = null;
    });
    top.addEventListener("pointermove", (event) => this.#moved(event));
    top.addEventListener("pointerup", (event) => this.#released(event, [event.offsetX, event.offsetY]));
    top.addEventListener("pointercancel", (event) => this.#released(event, null));
    top.addEventListener("pointerleave", () => this.#pointAt(NaN, NaN));
    top.addEventListener("keydown", (event) => this.#key(event));
    top.addEventListener("focus", () => this.#pointAtCross());
  }

  /** @param {PointerEvent} event */
  #moved(event) {
    const before = this.pointers.get(event.pointerId);
    /** @type {Point} */
    const now = [event.offsetX, event.offsetY];
    if (!before) return this.#pointAt(...now);
    this.pointers.set(event.pointerId, now);
    if (this.down && this.asking) {
      this.far = now;
      this.draw(false);
    } else if (this.pointers.size === 1) {
      this.pan(now[0] - before[0], now[1] - before[1]);
    } else if (this.pointers.size === 2) {
      const [other] = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
      const distance = (/** @type {Point} */ at) => Math.hypot(at[0] - other[0], at[1] - other[1]) || 1;
      this.zoom(distance(now) / distance(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
      this.pan((now[0] - before[0]) / 2, (now[1] - before[1]) / 2);
    }
  }

  /** @param {PointerEvent} event @param {Point | null} at null if it was broken off */
  #released(event, at) {
    const { down, far, asking } = this;
    this.pointers.delete(event.pointerId);
    this.down = this.far = null;
    this.draw(false);
    if (!at || !down) return;
    const moved = Math.hypot(at[0] - down[0], at[1] - down[1]) > SLIP;
    if (asking && moved && far) this.onSelect(cameras.selection(this.camera, this.domain, down, far));
    else if (this.onClick && !moved) this.onClick(...cameras.toWorld(this.camera, ...at));
    else if (!asking && !moved && event.pointerType === "mouse") this.zoom(2, ...at);
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
      Enter: () => this.onClick?.(...cameras.toWorld(this.camera, ...this.middle)),
    };
    const action = event.ctrlKey || event.metaKey || event.altKey ? undefined : actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  /** Keys point with the cross. */
  #pointAtCross() {
    if (this.top.matches(":focus-visible")) this.#pointAt(...this.middle);
  }

  /** @param {number} left @param {number} top */
  #pointAt(left, top) {
    if (!this.layer?.point(...cameras.toWorld(this.camera, left, top))) return;
    this.draw(false);
    this.onHover();
  }

  // -- drawing ---------------------------------------------------------------------------------------------------

  /** @param {boolean} [all] or only what lies above cells and land */
  draw(all = true) {
    this.stale ||= all;
    if (!this.scheduled) this.scheduled = requestAnimationFrame(() => this.drawNow());
  }

  /** Draw what has changed, now. */
  drawNow() {
    this.scheduled = 0;
    if (!this.measured) return;
    if (this.stale) this.#drawBase();
    this.#drawTop();
    this.stale = false;
  }

  #drawBase() {
    const context = /** @type {CanvasRenderingContext2D} */ (this.base.getContext("2d"));
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = this.style.land;
    context.fillRect(0, 0, this.base.width, this.base.height);
    this.written = [];
    this.layer?.draw(context, this);
    if (this.ground) this.#drawLand(context, this.ground);
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.#drawGrid(context);
    if (this.domain.geographic) this.#drawBar(context);
    if (this.ground) this.#drawCities(context, this.ground);
  }

  /** The camera in pixels of the screen. */
  get device() {
    const { base, ratio } = this;
    return { ...this.camera, scale: this.camera.scale * ratio, width: base.width, height: base.height };
  }

  /** The sea over its cells, which get pale, and the coast; nothing where the view is finer than the drawing.
   * @param {CanvasRenderingContext2D} context @param {Ground} ground */
  #drawLand(context, { land, narrowest }) {
    const { scale, aspect, width, height, x, y } = this.device;
    if (!land.length || width / scale < narrowest) return;
    // The paths are moved, not the canvas: lines keep their width.
    const move = new DOMMatrix([scale, 0, 0, scale * aspect, width / 2 - x * scale, height / 2 + y * scale * aspect]);
    const { x0, y0, x1, y1 } = cameras.bounds(this.domain);
    const [domain, coast, sea] = [new Path2D(), new Path2D(), new Path2D()];
    domain.rect(x0, -y1, x1 - x0, y1 - y0);
    coast.addPath(this.land, move);
    sea.addPath(domain, move);
    context.save();
    context.clip(sea);
    context.strokeStyle = this.style.coast;
    context.lineWidth = this.ratio;
    context.lineJoin = "round";
    context.stroke(coast);
    sea.addPath(coast);
    context.fillStyle = this.style.sea;
    context.fill(sea, "evenodd");
    context.restore();
  }

  /** The largest cities that are seen, where nothing else is written. @param {CanvasRenderingContext2D} context @param {Ground} ground */
  #drawCities(context, { cities }) {
    const { width, height } = this.camera;
    let left = Math.ceil((width * height) / ROOM);
    context.font = "11.5px system-ui, sans-serif";
    for (const [name, , x, y] of cities) {
      const [at, top] = cameras.toScreen(this.camera, x, y);
      if (at < 4 || top < 10 || at > width - 20 || top > height - 10) continue;
      if (!this.#text(context, name, at + 6, top, "left", true)) continue;
      context.beginPath();
      context.arc(at, top, 2.3, 0, 2 * Math.PI);
      context.fill();
      if (!--left) return;
    }
  }

  /** Lines at round numbers, with their labels; names of axes that are no degrees. @param {CanvasRenderingContext2D} context */
  #drawGrid(context) {
    const { camera, domain } = this;
    const { width, height } = camera;
    const whole = cameras.bounds(domain), flat = domain.lower.length === 1;
    const [west, north] = cameras.toWorld(camera, 0, 0), [east, south] = cameras.toWorld(camera, width, height);
    const [x0, x1, y0, y1] = [Math.max(west, whole.x0), Math.min(east, whole.x1), Math.max(south, whole.y0), Math.min(north, whole.y1)];
    const across = lines(x0, x1, Math.max(2, width / 150), domain.geographic);
    const up = flat ? { at: [], step: 1 } : lines(y0, y1, Math.max(2, height / 110), domain.geographic);
    const [[left, over], [right, under]] = [cameras.toScreen(camera, x0, y1), cameras.toScreen(camera, x1, y0)];
    const columns = across.at.map((value) => ({ words: label(value, 0, across.step, domain.geographic), at: cameras.toScreen(camera, value, 0)[0] }));
    const rows = up.at.map((value) => ({ words: label(value, 1, up.step, domain.geographic), at: cameras.toScreen(camera, 0, value)[1] }));
    context.lineWidth = 1;
    context.strokeStyle = this.style.grid;
    context.beginPath();
    for (const { at } of columns) {
      context.moveTo(Math.round(at) + 0.5, over);
      context.lineTo(Math.round(at) + 0.5, under);
    }
    for (const { at } of rows) {
      context.moveTo(left, Math.round(at) + 0.5);
      context.lineTo(right, Math.round(at) + 0.5);
    }
    context.stroke();
    context.font = "11px system-ui, sans-serif";
    const bottom = Math.min(under + 10, height - 9);
    for (const { words, at } of columns) if (at > 150 || bottom < height - 24) this.#text(context, words, at, bottom, "center");
    for (const { words, at } of rows) if (at > 12 && at < height - 40) this.#text(context, words, 5, at);
    if (domain.geographic) return;
    this.#text(context, domain.names[0], width - 6, Math.min(under + 10, height - 24), "right");
    if (!flat) this.#text(context, domain.names[1], 5, Math.max(over - 8, 10));
  }

  /** @param {CanvasRenderingContext2D} context */
  #drawBar(context) {
    const { pixels, text } = scaleBar(this.camera);
    const [left, bottom] = [12, this.camera.height - 12];
    const bar = new Path2D();
    bar.moveTo(left, bottom - 5);
    bar.lineTo(left, bottom);
    bar.lineTo(left + pixels, bottom);
    bar.lineTo(left + pixels, bottom - 5);
    this.#stroke(context, bar, this.style.text);
    this.#text(context, text, left + 5, bottom - 9);
  }

  /** Write a text. A shy one is left out where it would be cut off or lie on another; whether it was written.
   * @param {CanvasRenderingContext2D} context @param {string} text @param {number} x @param {number} y its middle @param {CanvasTextAlign} [align] */
  #text(context, text, x, y, align = "left", shy = false) {
    [context.textAlign, context.textBaseline] = [align, "middle"];
    const { actualBoundingBoxLeft: left, actualBoundingBoxRight: right, actualBoundingBoxAscent: up, actualBoundingBoxDescent: down } = context.measureText(text);
    const [x0, y0, x1, y1] = [x - left - 6, y - up - 3, x + right + 3, y + down + 3];
    if (shy && (x1 > this.camera.width || this.written.some((other) => x0 < other[2] && other[0] < x1 && y0 < other[3] && other[1] < y1))) return false;
    this.written.push([x0, y0, x1, y1]);
    context.lineJoin = "round";
    context.lineWidth = 3;
    context.strokeStyle = this.style.halo;
    context.strokeText(text, x, y);
    context.fillStyle = this.style.text;
    context.fillText(text, x, y);
    return true;
  }

  #drawTop() {
    const { camera, style } = this;
    const context = /** @type {CanvasRenderingContext2D} */ (this.top.getContext("2d"));
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, camera.width, camera.height);
    const kept = this.written.length; // of the base
    this.marks.forEach((mark, number) => this.#outline(context, mark, style.mark, this.numbered ? String(number + 1) : ""));
    const drawn = this.down && this.far && cameras.selection(camera, this.domain, this.down, this.far);
    if (drawn) this.#outline(context, drawn, style.mark);
    for (const area of this.layer?.pointed ?? []) this.#outline(context, area, style.text);
    this.written.length = kept;
  }

  /** A line with a halo. @param {CanvasRenderingContext2D} context @param {Path2D} line @param {string} colour */
  #stroke(context, line, colour) {
    for (const [style, width] of /** @type {[string, number][]} */ ([[this.style.halo, 4], [colour, 2]])) {
      context.strokeStyle = style;
      context.lineWidth = width;
      context.stroke(line);
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {Area} area @param {string} colour */
  #outline(context, { x0, y0, x1, y1, ring = [[x0, y0], [x1, y0], [x1, y1], [x0, y1]] }, colour, name = "") {
    const line = new Path2D();
    const [left, top] = cameras.toScreen(this.camera, x0, y1);
    if (x0 === x1 && y0 === y1) line.arc(left, top, 2, 0, 2 * Math.PI); // a point is a dot
    else for (const corner of ring) line.lineTo(...cameras.toScreen(this.camera, ...corner));
    line.closePath();
    this.#stroke(context, line, colour);
    context.font = "600 12px system-ui, sans-serif";
    if (name) this.#text(context, name, left + 5, top + 10);
  }
}
