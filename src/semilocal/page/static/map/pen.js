// A polygon that is being drawn, corner by corner. Knows the camera. Knows no canvas and no events.

import * as cameras from "#map/camera.js";

const NEAR = 9; // pixels: a click this close to the first corner closes the polygon
const SAME = 3; // pixels: the second click of a double click

/** @typedef {[number, number]} Point */

/** The rectangle around a ring. @param {Point[]} ring @returns {import("#map/camera.js").Area} */
function areaOf(ring) {
  const [xs, ys] = [ring.map(([x]) => x), ring.map(([, y]) => y)];
  return { x0: Math.min(...xs), y0: Math.min(...ys), x1: Math.max(...xs), y1: Math.max(...ys), ring };
}

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
    return areaOf(ring);
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
