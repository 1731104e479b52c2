import assert from "node:assert/strict";
import test from "node:test";
import { fit, label, lines, pan, resize, scaleBar, selection, toScreen, toWorld, zoom } from "../../src/semilocal/page/static/map/camera.js";

const california = { lower: [-124.5, 32.5], upper: [-114.1, 42.1], names: ["longitude", "latitude"], geographic: true, unit: "km²" };
const square = { lower: [0, 0], upper: [1, 1], names: ["x", "y"], geographic: false, unit: "unit area" };
const near = (a, b, tolerance = 1e-9) => assert.ok(Math.abs(a - b) <= tolerance * Math.max(1, Math.abs(b)), `${a} is not ${b}`);

test("a new camera sees the whole domain", () => {
  for (const [width, height] of [[800, 500], [350, 600]]) {
    const camera = fit(california, width, height);
    for (const [x, y] of [california.lower, california.upper]) {
      const [left, top] = toScreen(camera, x, y);
      assert.ok(left >= -1e-6 && left <= width + 1e-6 && top >= -1e-6 && top <= height + 1e-6);
    }
  }
});

test("a kilometre is as long to the north as to the east, in the middle of the domain", () => {
  const camera = fit(california, 800, 500);
  const middle = (32.5 + 42.1) / 2;
  const east = 1 / Math.cos((middle * Math.PI) / 180); // degrees of longitude as long as one of latitude
  const [x0, y0] = toScreen(camera, -120, middle);
  near(toScreen(camera, -120 + east, middle)[0] - x0, y0 - toScreen(camera, -120, middle + 1)[1]);
});

test("what is under the pointer stays there while zooming", () => {
  const camera = fit(square, 600, 600);
  const before = toWorld(camera, 300, 200);
  const after = toWorld(zoom(camera, square, 3, 300, 200), 300, 200);
  near(after[0], before[0]);
  near(after[1], before[1]);
});

test("zooming out has an end, and the middle stays inside the domain", () => {
  let camera = fit(square, 600, 400);
  for (let step = 0; step < 30; step++) camera = zoom(camera, square, 0.5);
  near(camera.scale, fit(square, 600, 400).scale * 0.8);
  const far = pan(camera, square, 1e7, -1e7);
  assert.ok(far.x >= 0 && far.x <= 1 && far.y >= 0 && far.y <= 1);
});

test("a rectangle is cut at the domain, whichever corner is dragged first; none outside", () => {
  const camera = fit(square, 600, 600);
  const rect = selection(camera, square, [590, 590], [300, 300]);
  near(rect.x0, 0.5);
  near(rect.x1, 1);
  near(rect.y0, 0);
  near(rect.y1, 0.5);
  assert.equal(selection(camera, square, [0, 0], [5, 5]), null);
});

test("the scale bar is right: the equator is 40,030 km long", () => {
  const { length, pixels, text } = scaleBar({ y: 0, scale: 10 });
  near((length / pixels) * 3600, 40030.2, 1e-4);
  assert.match(text, / km$/);
  assert.ok(pixels <= 120);
  assert.match(scaleBar({ y: 60, scale: 1e6 }).text, / m$/);
});

test("lines are at round degrees, and labels name the side", () => {
  const { at, step } = lines(-124.5, -114.1, 5, true);
  assert.deepEqual([step, ...at], [5, -120, -115]);
  assert.equal(label(-120, 0, 5, true), "120° W");
  assert.equal(label(37.5, 1, 0.5, true), "37.5° N");
  assert.equal(label(0, 1, 0.5, true), "0°");
  assert.equal(label(-0.25, 0, 0.05, false), "−0.25");
});
