// A map without cells: lines behind it, graticule, scale bar and marks; moved by pointer, touch and keys, with a cross in
// the middle for keys. Knows the browser's canvas. Knows no cells, no campaigns and no server.

import { label, lines, scaleBar } from "#map/camera.js";
import * as cameras from "#map/camera.js";

/** @typedef {import("#map/camera.js").Area} Area */

/** What lies behind and over the cells (io/basemap.py makes it): rings and lines are x, y, then steps, in whole numbers of step.
 * @typedef {{step: number, land: number[][], lines: number[][], narrowest: number, cities: [string, string, number, number][], credit: string}} Ground */

const STYLES = {
  light: { background: "#f4f1e6", sea: "rgba(188,212,230,0.78)", coast: "#2c3e4a", grid: "rgba(60,80,95,0.22)", text: "#2b3942", halo: "rgba(250,252,252,0.85)", mark: "#b3261e" },
  dark: { background: "#1a222a", sea: "rgba(16,34,48,0.8)", coast: "#a9b8c2", grid: "rgba(190,210,225,0.17)", text: "#dfe8ed", halo: "rgba(13,19,24,0.8)", mark: "#ff8a80" },
};
const STEP = 60; // pixels that an arrow key moves
const ROOM = 26_000; // square pixels of the map that a name of a city has for itself

/** A path of rings or lines, north at the top. @param {number[][]} lines @param {number} step */
function pathOf(lines, step) {
  const path = new Path2D();
  for (const line of lines) {
    let [x, y] = [0, 0];
    for (let place = 0; place < line.length; place += 2) {
      [x, y] = [x + line[place], y + line[place + 1]];
      if (place) path.lineTo(x * step, -y * step);
      else path.moveTo(x * step, -y * step);
    }
  }
  return path;
}

export class PlainMap {
  /** @param {import("#map/camera.js").Domain} domain @param {"light" | "dark"} theme @param {string} words for those who do not see it */
  constructor(domain, theme, words) {
    this.domain = domain;
    this.theme = theme;
    this.element = document.createElement("div");
    this.element.className = "map";
    this.base = this.element.appendChild(document.createElement("canvas"));
    this.top = this.element.appendChild(document.createElement("canvas"));
    this.top.tabIndex = 0;
    this.top.setAttribute("role", "application");
    this.top.setAttribute("aria-label", words);
    /** @type {Area[]} */
    this.marks = [];
    /** @type {Ground | null} */
    this.ground = null;
    this.land = new Path2D();
    this.lines = new Path2D();
    /** @type {number[][]} left, top, right, bottom of what is written */
    this.written = [];
    this.camera = cameras.fit(domain, 600, 400);
    this.ratio = 1;
    this.untouched = true;
    this.measured = false;
    this.roomForNumber = 0; // pixels: narrower marks have no number
    /** @type {Map<number, [number, number]>} */
    this.pointers = new Map();
    this.needs = { geometry: true, colours: true, top: true };
    this.scheduled = 0;
    this.#listen();
    new ResizeObserver(() => this.#measure()).observe(this.element);
  }

  get style() {
    return STYLES[this.theme];
  }

  /** @param {"light" | "dark"} theme */
  setTheme(theme) {
    this.theme = theme;
    this.draw({ colours: true, top: true });
  }

  /** @param {Ground} ground */
  setGround(ground) {
    this.ground = ground;
    [this.land, this.lines] = [pathOf(ground.land, ground.step), pathOf(ground.lines, ground.step)];
    this.draw({ colours: true });
  }

  /** Areas that were asked about. @param {Area[]} marks */
  setMarks(marks) {
    this.marks = marks;
    this.draw({ top: true });
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

  /** Show a part of the domain. @param {import("#map/camera.js").Rect} part @param {number} [margin] pixels */
  lookAt(part, margin = 24) {
    const { width, height } = this.camera;
    const { x, y, scale } = cameras.fit(this.domain, width, height, margin, part);
    this.untouched = false;
    this.#look(cameras.zoom({ ...cameras.fit(this.domain, width, height), x, y, scale }, this.domain, 1));
  }

  /** What is seen: the middle, and how many units are across. @returns {[number, number, number] | null} null for all */
  get seen() {
    return this.untouched ? null : [this.camera.x, this.camera.y, this.camera.width / this.camera.scale];
  }

  /** The pixel under the cross. @returns {[number, number]} */
  get middle() {
    return [this.camera.width / 2, this.camera.height / 2];
  }

  /** Keys point with the cross. */
  pointAtCross() {
    if (this.top.matches(":focus-visible")) this.pointAt(...this.middle);
  }

  /** @param {import("#map/camera.js").Camera} camera */
  #look(camera) {
    this.camera = camera;
    this.moved();
    this.draw({ geometry: true, colours: true, top: true });
    this.pointAtCross();
  }

  #measure() {
    const { clientWidth: width, clientHeight: height } = this.element;
    if (!width || !height) return;
    this.ratio = Math.min(window.devicePixelRatio || 1, 2);
    for (const canvas of [this.base, this.top]) {
      canvas.width = Math.round(width * this.ratio);
      canvas.height = Math.round(height * this.ratio);
    }
    this.camera = this.untouched
      ? cameras.fit(this.domain, width, height)
      : cameras.resize(this.camera, this.domain, width, height);
    this.measured = true;
    this.resized();
    this.draw({ geometry: true, colours: true, top: true });
  }

  #listen() {
    const { top } = this;
    top.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), event.offsetX, event.offsetY);
    }, { passive: false });
    top.addEventListener("dblclick", (event) => this.clickedTwice(event.offsetX, event.offsetY));
    top.addEventListener("pointerdown", (event) => {
      top.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
      this.pointAt(event.offsetX, event.offsetY); // a finger does not hover: it touches
      this.pressed([event.offsetX, event.offsetY]);
    });
    top.addEventListener("pointermove", (event) => this.#moved(event));
    for (const name of ["pointerup", "pointercancel"]) {
      top.addEventListener(name, (event) => {
        const { pointerId, offsetX, offsetY } = /** @type {PointerEvent} */ (event);
        this.pointers.delete(pointerId);
        this.released(name === "pointerup" ? [offsetX, offsetY] : null);
      });
    }
    top.addEventListener("keydown", (event) => this.#key(event));
    top.addEventListener("focus", () => {
      this.draw({ top: true });
      this.pointAtCross();
    });
    top.addEventListener("blur", () => this.draw({ top: true }));
  }

  /** @param {PointerEvent} event */
  #moved(event) {
    const before = this.pointers.get(event.pointerId);
    /** @type {[number, number]} */
    const now = [event.offsetX, event.offsetY];
    if (!before) {
      this.pointAt(...now);
      return;
    }
    this.pointers.set(event.pointerId, now);
    if (this.dragged(now)) return;
    if (this.pointers.size === 1) {
      this.pan(now[0] - before[0], now[1] - before[1]);
    } else if (this.pointers.size === 2) {
      const [other] = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
      const distance = (/** @type {[number, number]} */ at) => Math.hypot(at[0] - other[0], at[1] - other[1]) || 1;
      this.zoom(distance(now) / distance(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
      this.pan((now[0] - before[0]) / 2, (now[1] - before[1]) / 2);
    }
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
      ...this.keys(),
    };
    const action = event.ctrlKey || event.metaKey || event.altKey ? undefined : actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  // -- what a map with more on it does otherwise -----------------------------------------------------------------

  /** The pointer, or the cross, is at a pixel. @param {number} _left @param {number} _top */
  pointAt(_left, _top) {}

  /** @param {[number, number]} _at */
  pressed(_at) {}

  /** Whether dragging does something else than moving the map. @param {[number, number]} _at */
  dragged(_at) {
    return false;
  }

  /** @param {[number, number] | null} _at null if it was broken off */
  released(_at) {}

  /** @param {number} left @param {number} top */
  clickedTwice(left, top) {
    this.zoom(2, left, top);
  }

  /** More keys. @returns {Record<string, () => void>} */
  keys() {
    return {};
  }

  /** Another part is seen. */
  moved() {}

  /** The canvas has another size. */
  resized() {}

  /** What lies below lines and graticule. @param {CanvasRenderingContext2D} context in pixels of the screen */
  paintGround(context) {
    context.fillStyle = this.style.background;
    context.fillRect(0, 0, this.base.width, this.base.height);
  }

  /** What lies above the marks. @param {CanvasRenderingContext2D} _context */
  paintOver(_context) {}

  // -- drawing ---------------------------------------------------------------------------------------------------

  /** @param {{geometry?: boolean, colours?: boolean, top?: boolean}} needs */
  draw(needs) {
    Object.assign(this.needs, needs);
    if (!this.scheduled) this.scheduled = requestAnimationFrame(() => this.drawNow());
  }

  /** Draw what has changed, now. */
  drawNow() {
    this.scheduled = 0;
    if (!this.measured) return;
    if (this.needs.colours) this.#ground();
    if (this.needs.top) this.#top();
    this.needs = { geometry: false, colours: false, top: false };
  }

  /** The camera in pixels of the screen. */
  get device() {
    const { base, ratio } = this;
    return { ...this.camera, scale: this.camera.scale * ratio, width: base.width, height: base.height };
  }

  #ground() {
    const context = /** @type {CanvasRenderingContext2D} */ (this.base.getContext("2d"));
    context.setTransform(1, 0, 0, 1, 0, 0);
    this.paintGround(context);
    this.written = [];
    if (this.ground) this.#drawLand(context, this.ground);
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.drawGrid(context);
    this.drawBar(context);
    if (this.ground) this.#drawCities(context, this.ground);
  }

  /** The sea over its cells, which get pale, and the coast; nothing where the view is finer than the drawing.
   * @param {CanvasRenderingContext2D} context @param {Ground} ground */
  #drawLand(context, { land, narrowest }) {
    const { scale, aspect, width, height, x, y } = this.device;
    // The paths are moved, not the canvas: lines keep their width.
    const move = new DOMMatrix([scale, 0, 0, scale * aspect, width / 2 - x * scale, height / 2 + y * scale * aspect]);
    const { x0, y0, x1, y1 } = cameras.bounds(this.domain);
    const [domain, coast, lines, sea] = [new Path2D(), new Path2D(), new Path2D(), new Path2D()];
    domain.rect(x0, -y1, x1 - x0, y1 - y0);
    coast.addPath(this.land, move);
    lines.addPath(this.lines, move);
    sea.addPath(domain, move);
    context.save();
    context.clip(sea);
    context.strokeStyle = this.style.coast;
    context.lineWidth = this.ratio;
    context.lineJoin = "round";
    context.stroke(lines);
    if (land.length && width / scale >= narrowest) {
      context.stroke(coast);
      sea.addPath(coast);
      context.fillStyle = this.style.sea;
      context.fill(sea, "evenodd");
    }
    context.restore();
  }

  /** The largest cities that are seen, where nothing else is written. @param {CanvasRenderingContext2D} context @param {Ground} ground */
  #drawCities(context, { cities }) {
    const { width, height } = this.camera;
    let left = Math.ceil((width * height) / ROOM);
    [context.font, context.textAlign, context.textBaseline] = ["11.5px system-ui, sans-serif", "left", "middle"];
    for (const [name, , x, y] of cities) {
      const [at, top] = cameras.toScreen(this.camera, x, y);
      if (at < 4 || top < 10 || at > width - 20 || top > height - 10) continue;
      if (!this.text(context, name, at + 6, top, true)) continue;
      context.beginPath();
      context.arc(at, top, 2.3, 0, 2 * Math.PI);
      context.fill();
      if (!--left) return;
    }
  }

  /** @param {CanvasRenderingContext2D} context */
  drawGrid(context) {
    const { camera, domain } = this;
    const style = this.style;
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
      if (place > 150 || bottom < camera.height - 30) this.text(context, label(value, 0, across.step, domain.geographic), place, bottom);
    }
    context.textAlign = "left";
    context.textBaseline = "middle";
    for (const value of flat ? [] : up.at) {
      const [, place] = cameras.toScreen(camera, camera.x, value);
      if (place > 12 && place < camera.height - 40) this.text(context, label(value, 1, up.step, domain.geographic), 5, place);
    }
    if (!domain.geographic) {
      context.textAlign = "right";
      this.text(context, domain.names[0], camera.width - 6, Math.min(under + 10, camera.height - 24));
      context.textAlign = "left";
      if (!flat) this.text(context, domain.names[1], 5, Math.max(over - 8, 10));
    }
  }

  /** @param {CanvasRenderingContext2D} context */
  drawBar(context) {
    if (!this.domain.geographic) return;
    const { pixels, text } = scaleBar(this.camera, true);
    const [left, bottom] = [12, this.camera.height - 12];
    const style = this.style;
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
    this.text(context, text, left + 5, bottom - 3);
  }

  /** Write a text. A shy one is left out where it would be cut off or lie on another; whether it was written.
   * @param {CanvasRenderingContext2D} context @param {string} text @param {number} x @param {number} y @param {boolean} [shy] */
  text(context, text, x, y, shy = false) {
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

  #top() {
    const context = /** @type {CanvasRenderingContext2D} */ (this.top.getContext("2d"));
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.camera.width, this.camera.height);
    const kept = this.written.length; // of the ground
    this.marks.forEach((mark, number) => {
      const roomy = (mark.x1 - mark.x0) * this.camera.scale >= this.roomForNumber;
      this.outline(context, mark, this.style.mark, roomy ? String(number + 1) : "");
    });
    this.paintOver(context);
    if (this.top.matches(":focus-visible")) {
      const [x, y] = this.middle;
      const cross = new Path2D();
      for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
        cross.moveTo(x + 4 * dx, y + 4 * dy);
        cross.lineTo(x + 13 * dx, y + 13 * dy);
      }
      this.stroke(context, cross, this.style.text);
    }
    this.written.length = kept;
  }

  /** A line with a halo. @param {CanvasRenderingContext2D} context @param {Path2D} line @param {string} colour */
  stroke(context, line, colour) {
    for (const [style, width] of /** @type {[string, number][]} */ ([[this.style.halo, 4], [colour, 2]])) {
      context.strokeStyle = style;
      context.lineWidth = width;
      context.stroke(line);
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {Area} area @param {string} colour @param {string} name */
  outline(context, area, colour, name) {
    const { x0, y0, x1, y1 } = area;
    const line = new Path2D();
    const [left, top] = cameras.toScreen(this.camera, x0, y1);
    if (x0 === x1 && y0 === y1) {
      for (const radius of [1, 3]) { // a point is a dot
        line.moveTo(left + radius, top);
        line.arc(left, top, radius, 0, 2 * Math.PI);
      }
    } else for (const [x, y] of area.ring ?? [[x0, y0], [x1, y0], [x1, y1], [x0, y1]]) line.lineTo(...cameras.toScreen(this.camera, x, y));
    line.closePath();
    this.stroke(context, line, colour);
    if (!name) return;
    context.font = "600 12px system-ui, sans-serif";
    context.textAlign = "left";
    context.textBaseline = "top";
    this.text(context, name, left + 5, top + 4);
  }
}
