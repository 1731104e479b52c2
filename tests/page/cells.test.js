import assert from "node:assert/strict";
import test from "node:test";
import { Frame, NOTHING, OPEN, REGION, Timeline } from "../../src/semilocal/page/static/map/cells.js";

const square = { lower: [0, 0], upper: [1, 1], names: ["x", "y"], geographic: false, unit: "unit area" };

/** Rows from [x0, y0, x1, y1, state, crowd]. */
function rows(...list) {
  const out = { x0: [], y0: [], x1: [], y1: [], area: [], state: [], crowd: [], half: [] };
  list.forEach(([x0, y0, x1, y1, state, crowd]) => {
    const row = { x0, y0, x1, y1, area: (x1 - x0) * (y1 - y0), state, crowd, half: 0 };
    for (const [name, value] of Object.entries(row)) out[name].push(value);
  });
  return out;
}

function story() {
  const timeline = new Timeline(square);
  timeline.add({ round: 1, kind: "cells", rows: rows([0, 0, 0.5, 1, OPEN, 60], [0.5, 0, 1, 1, REGION, 3]) });
  timeline.add({ round: 2, kind: "cells", rows: rows([0, 0, 0.5, 0.5, REGION, 33], [0, 0.5, 0.5, 1, OPEN, 30]) });
  timeline.add({ round: 3, kind: "cells", rows: rows([0, 0.5, 0.5, 1, REGION, 30]) });
  timeline.add({ round: 4, kind: "values", rows: null, what: "mean" });
  return timeline;
}

test("every frame covers the domain once, and is the same after later rounds came", () => {
  const timeline = story();
  assert.equal(timeline.last, 3);
  for (let round = 0; round <= timeline.last; round++) {
    const { x0, y0, x1, y1 } = timeline.frame(round).rows;
    const area = x0.reduce((sum, left, row) => sum + (x1[row] - left) * (y1[row] - y0[row]), 0);
    assert.ok(Math.abs(area - 1) < 1e-12, `round ${round}: ${area}`);
  }
  const frame = timeline.frame(2);
  assert.deepEqual(frame.rows.state, [REGION, REGION, OPEN]);
  assert.deepEqual([frame.find(0.75, 0.5), frame.find(2, 2), frame.open], [0, NOTHING, 1]);
});

test("densities are crowds over areas", () => {
  assert.deepEqual(story().frame(3).densities, [3 / 0.5, 33 / 0.25, 30 / 0.25]);
});

test("a round that is the whole map stands for itself, one that changed nothing shows the one before", () => {
  const timeline = new Timeline(square);
  const pieces = [{ people: 18, area: 0.25, rings: [[0, 0, 0.25, 0, 0.25, 1, 0, 1, 0, 0]] }, { people: 12, area: 0.25, rings: [[0.25, 0, 0.5, 0, 0.5, 1, 0.25, 1, 0.25, 0]] }];
  timeline.add({ round: 1, kind: "cells", whole: true, rows: rows([0, 0, 1, 1, OPEN, 60]) });
  timeline.add({ round: 2, kind: "cells", whole: true, rows: null });
  timeline.add({ round: 3, kind: "cells", whole: true, rows: { ...rows([0, 0, 0.5, 1, REGION, 30], [0.5, 0, 1, 1, OPEN, 30]), pieces: [pieces, []] } });
  timeline.add({ round: 4, kind: "values", rows: null, what: "mean" });
  assert.deepEqual([0, 1, 2, 3, 4].map((round) => timeline.frame(round).size), [1, 1, 1, 2, 2]);
  assert.equal(timeline.last, 3);
  const frame = timeline.frame(3);
  assert.deepEqual([frame.pieces.map(({ row }) => row), frame.pieces.map(({ density }) => density), timeline.frame(1).pieces], [[0, 0], [72, 48], []]);
  assert.deepEqual([[0.1, 0.5], [0.3, 0.5], [0.7, 0.5]].map(([x, y]) => frame.findPiece(x, y)), [0, 1, NOTHING]);
});

test("a point in the box around a region, but outside of it, is not in it", () => {
  const shown = { ...rows([0, 0, 2, 2, REGION, 30], [1, 1, 2, 2, REGION, 20]), rings: [[[0, 0, 2, 0, 2, 1, 1, 1, 1, 2, 0, 2, 0, 0]], null] };
  const frame = new Frame(shown);
  assert.deepEqual([[0.5, 1.5], [1.5, 0.5], [1.5, 1.5], [2.5, 0]].map(([x, y]) => frame.find(x, y)), [0, 0, 1, NOTHING]);
});
