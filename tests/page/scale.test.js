import "./document.mjs";
import assert from "node:assert/strict";
import test from "node:test";
import { niceStep } from "../../src/semilocal/page/static/map/camera.js";
import { position, ramp, robustScale, ticks } from "../../src/semilocal/page/static/map/colours.js";

test("extremes do not set the range: one crowded cell among many leaves the colours of the others as they are", () => {
  const values = Array.from({ length: 1000 }, (_, index) => 1 + index / 100);
  const before = robustScale(values);
  const after = robustScale([...values, 1e9, 1e-9]);
  assert.ok(Math.abs(after.high / before.high - 1) < 0.05);
  assert.ok(Math.abs(after.low / before.low - 1) < 0.05);
});

test("values that hardly differ do not get the ends of the ramp", () => {
  const scale = robustScale([1, 1.001]);
  assert.ok(position(scale, 1) > 0.3 && position(scale, 1.001) < 0.7);
});

test("a wide range is a log scale, and positions grow with the value between 0 and 1", () => {
  const scale = robustScale(Array.from({ length: 200 }, (_, index) => 10 ** (index / 40)));
  assert.equal(scale.log, true);
  const places = [0, 1e-9, 1, 10, 100, 1e9].map((value) => position(scale, value));
  assert.deepEqual(places, [...places].sort((a, b) => a - b));
  assert.equal(places[0], 0);
  assert.equal(places.at(-1), 1);
});

test("empty, negative and missing values give a range all the same", () => {
  for (const values of [[], [NaN], [0, 0], [-1, 0], [5], [NaN, 2, 2]]) {
    const scale = robustScale(values);
    assert.ok(scale.high > scale.low, JSON.stringify(values));
    for (const value of [0, 1, 5]) assert.ok(position(scale, value) >= 0 && position(scale, value) <= 1);
  }
});

test("a legend has a few round numbers inside the range", () => {
  for (const values of [[1, 1e6], [0.001, 7], [1, 1.1], [100, 450]]) {
    const scale = robustScale(values.flatMap((value) => Array(50).fill(value)));
    const found = ticks(scale, 5);
    assert.ok(found.length >= 1 && found.length <= 7, `${values}: ${found}`);
    for (const value of found) assert.ok(value >= scale.low * 0.99 && value <= scale.high * 1.01);
  }
});

/** How light the colour of a pixel looks, 0 to 1. */
const luminance = (pixel) => {
  const [red, green, blue] = [0, 8, 16].map((shift) => ((pixel >> shift) & 255) / 255).map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};

test("lightness goes one way along each ramp, so that the order can be seen without colours", () => {
  for (const [theme, sign] of [["light", -1], ["dark", 1]]) {
    const lights = Array.from(ramp(theme), luminance);
    for (let index = 1; index < lights.length; index++) assert.ok(sign * (lights[index] - lights[index - 1]) >= -0.004);
    assert.ok(Math.abs(lights[255] - lights[0]) > 0.5);
  }
});

test("steps are 1, 2 or 5 times a power of ten", () => {
  assert.deepEqual([0.9, 1.1, 2.1, 5.1, 0.03].map((rough) => Number(niceStep(rough).toPrecision(3))), [1, 2, 5, 10, 0.05]);
});
