import "./document.mjs";
import assert from "node:assert/strict";
import test from "node:test";
import { boxOf, csvOf } from "../../src/semilocal/page/static/views/ask.js";
import { count, digits, duration, interval, people, sure } from "../../src/semilocal/page/static/views/parts.js";

const domain = { lower: [0, 0], upper: [1, 1], names: ["x", "y"], geographic: false, unit: "unit area" };
const answer = { name: 'a "b", c', area: { x0: 0, y0: 0.25, x1: 0.5, y1: 1 }, value: 12.5, stderr: 2, low: 8, high: 17 };

test("numbers and times are words a person reads", () => {
  assert.deepEqual([count(1234.4), count(null), count(NaN)], ["1,234", "not known", "not known"]);
  assert.deepEqual([people(1), people(2)], ["1 participant", "2 participants"]);
  assert.deepEqual([duration(59.6), duration(61), duration(3700), duration(90000), duration(-3)], ["1 min 0 s", "1 min 1 s", "1 h 1 min", "1 d 1 h", "0 s"]);
  assert.deepEqual([digits(0.01234), digits(12345.6), digits(NaN)], ["0.0123", "12,346", "not known"]);
});

test("only an interval without width is called exact", () => {
  assert.deepEqual([interval(3, 3), interval(299.9999999, 300.0000001), interval(3, 9)], ["exactly 3", "exactly 300", "3 to 9"]);
  assert.deepEqual([interval(0, 0.4), interval(2.6, 3.2)], ["about 0", "about 3"]);
  assert.deepEqual([sure(61, 61), sure(0, 0.4), sure(3, 9)], ["exactly 61", "about 0, 95 %", "3 to 9, 95 %"]);
});

test("a table of answers survives names with commas and quotes", () => {
  assert.equal(csvOf([answer], domain), 'name,x_lower,y_lower,x_upper,y_upper,count,stderr,low,high\n"a ""b"", c",0,0.25,0.5,1,12.5,2,8,17\n');
});

test("one dimension is asked about with one number per corner", () => {
  assert.deepEqual(boxOf(answer.area, { ...domain, lower: [0], upper: [1], names: ["x"] }), [[0], [0.5]]);
  assert.deepEqual(boxOf(answer.area, domain), [[0, 0.25], [0.5, 1]]);
});
