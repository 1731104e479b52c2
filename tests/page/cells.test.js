import assert from "node:assert/strict";
import test from "node:test";
import { Frame, OPEN, outlineOf, REGION, Timeline } from "../../src/semilocal/page/static/map/cells.js";
import { fit } from "../../src/semilocal/page/static/map/camera.js";
import { NOTHING, locate, locatePieces, paint } from "../../src/semilocal/page/static/map/raster.js";

const square = { lower: [0, 0], upper: [1, 1], names: ["x", "y"], geographic: false, unit: "unit area" };

/** Whether a point is inside rings, and in no hole. */
function isInside(rings, x, y) {
  let inside = false;
  for (const ring of rings) {
    for (let i = 0; i + 3 < ring.length; i += 2) {
      const [ax, ay, bx, by] = ring.slice(i, i + 4);
      if (ay <= y !== by <= y && x < ax + ((y - ay) * (bx - ax)) / (by - ay)) inside = !inside;
    }
  }
  return inside;
}

/** The row of a frame that holds a point, or -1: what every pixel is compared with. */
function find(frame, x, y) {
  const { x0, y0, x1, y1 } = frame.columns;
  return x0.findIndex((_, row) => x >= x0[row] && x < x1[row] && y >= y0[row] && y < y1[row] && (!frame.rings(row) || isInside(frame.rings(row), x, y)));
}

/** Rows from [x0, y0, x1, y1, state, crowd]. */
function rows(...list) {
  const out = { x0: [], y0: [], x1: [], y1: [], area: [], depth: [], state: [], crowd: [], half: [], reason: [] };
  list.forEach(([x0, y0, x1, y1, state, crowd]) => {
    const row = { x0, y0, x1, y1, area: (x1 - x0) * (y1 - y0), depth: 1, state, crowd, half: 0, reason: `why ${x0}` };
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

test("every frame covers the domain once", () => {
  const timeline = story();
  assert.equal(timeline.last, 3);
  for (let round = 0; round <= timeline.last; round++) {
    const { x0, y0, x1, y1 } = timeline.frame(round).columns;
    const area = x0.reduce((sum, _, row) => sum + (x1[row] - x0[row]) * (y1[row] - y0[row]), 0);
    assert.ok(Math.abs(area - 1) < 1e-12, `round ${round}: ${area}`);
  }
});

test("a frame can be shown again after later rounds came: the past does not change", () => {
  const timeline = story();
  const frame = timeline.frame(2);
  assert.deepEqual([...frame.columns.state], [REGION, REGION, OPEN]);
  assert.equal(frame.text(0, "reason"), "why 0.5");
  assert.equal(find(frame, 0.75, 0.5), 0);
  assert.equal(find(frame, 2, 2), -1);
});

test("densities are crowds over areas, and what is exact is not uncertain", () => {
  const frame = story().frame(3);
  assert.deepEqual([...frame.values("density")], [3 / 0.5, 33 / 0.25, 30 / 0.25]);
  assert.deepEqual([...frame.values("uncertainty")], [0, 0, 0]);
  assert.equal(frame.isExact, true);
  const noisy = rows([0, 0, 1, 1, REGION, 50]);
  noisy.half = [10];
  assert.deepEqual([new Frame([{ rows: noisy, keep: null }]).isExact, ...new Frame([{ rows: noisy, keep: null }]).values("uncertainty")], [false, 40]);
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
  assert.deepEqual([frame.pieces.map(({ row }) => row), frame.pieceValues("density"), frame.pieceValues("crowd"), timeline.frame(1).pieces], [[0, 0], [72, 48], [], []]);
  const camera = fit(square, 60, 60, 0);
  const index = new Int32Array(60 * 60);
  locatePieces(index, frame, camera);
  assert.deepEqual([index[30 * 60 + 7], index[30 * 60 + 22], index[30 * 60 + 45]], [0, 1, NOTHING]);
});

test("every pixel shows the cell that holds its middle", () => {
  const frame = story().frame(3);
  const camera = fit(square, 90, 70, 5);
  const index = new Int32Array(90 * 70);
  locate(index, frame, camera);
  for (let y = 0; y < 70; y++) {
    for (let x = 0; x < 90; x++) {
      const at = [camera.x + (x + 0.5 - 45) / camera.scale, camera.y - (y + 0.5 - 35) / (camera.scale * camera.aspect)];
      assert.equal(index[y * 90 + x], find(frame, at[0], at[1]), `${x}, ${y}`);
    }
  }
  assert.equal(index[0], NOTHING);
});

test("a cell that is no box is drawn inside its outline, and a tiny one as a pixel", () => {
  const both = rows([0, 0, 1, 1, REGION, 5], [0, 0, 1, 1, REGION, 6]);
  both.rings = [[[0, 0, 1, 0, 0, 1, 0, 0]], [[1, 0, 1, 1, 0, 1, 1, 0]]];
  both.label = ["south-west", ""];
  const frame = new Frame([{ rows: both, keep: [0, 1] }]);
  const camera = fit(square, 40, 40, 0);
  const index = new Int32Array(1600);
  locate(index, frame, camera);
  for (let y = 0; y < 40; y++) for (let x = 0; x < 40; x++) if (x !== y && Math.abs(x - y) > 1) assert.equal(index[y * 40 + x], x < y ? 0 : 1);
  assert.deepEqual([frame.text(0, "label"), frame.text(1, "label"), frame.rings(1)?.length], ["south-west", "", 1]);
  const tiny = rows([0.5, 0.5, 0.5001, 0.5001, REGION, 9]);
  tiny.rings = [[[0.5, 0.5, 0.5001, 0.5, 0.5, 0.5001, 0.5, 0.5]]];
  locate(index, new Frame([{ rows: tiny, keep: null }]), camera);
  assert.equal(index.filter((row) => row === 0).length, 1);
});

test("cells smaller than a pixel are seen", () => {
  const frame = new Frame([{ rows: rows([0, 0, 1, 1, REGION, 1], [0.5, 0.5, 0.5001, 0.5001, REGION, 9]), keep: null }]);
  const index = new Int32Array(100 * 100);
  locate(index, frame, fit(square, 100, 100));
  assert.ok(index.includes(1));
});

test("pixels take the colour of their row, and an outline between regions", () => {
  const frame = story().frame(3);
  const camera = fit(square, 60, 60, 0);
  const [index, pixels] = [new Int32Array(3600), new Uint32Array(3600)];
  locate(index, frame, camera);
  paint(pixels, index, frame, camera, Uint32Array.from([10, 11, 12]), null, { background: 1, edge: 2, open: 3 });
  assert.deepEqual([45 * 60 + 10, 10 * 60 + 10, 29 * 60 + 10, 10 * 60 + 45].map((place) => pixels[place]), [11, 12, 2, 10]);
  assert.deepEqual(new Set(pixels), new Set([2, 10, 11, 12]));
});

const unit = (x, y) => ({ lower: [x, y], upper: [x + 1, y + 1] });
const places = [0, 1, 2].flatMap((x) => [0, 1, 2].map((y) => [x, y]));

test("boxes that meet have one outline, and a hole in it runs the other way", () => {
  const rings = outlineOf(places.filter(([x, y]) => x !== 1 || y !== 1).map(([x, y]) => unit(x, y)));
  assert.deepEqual(rings[0], [0, 0, 3, 0, 3, 3, 0, 3, 0, 0]);
  assert.deepEqual(rings[1], [2, 1, 1, 1, 1, 2, 2, 2, 2, 1]);
  assert.equal(rings.length, 2);
});

test("where corners touch no ring touches itself", () => {
  const rings = outlineOf(places.filter(([x, y]) => !(x === 1 && y === 1) && !(x === 2 && y === 0)).map(([x, y]) => unit(x, y)));
  assert.equal(rings.length, 2);
  for (const ring of rings) {
    const points = Array.from({ length: ring.length / 2 - 1 }, (_, i) => `${ring[2 * i]},${ring[2 * i + 1]}`);
    assert.equal(new Set(points).size, points.length);
  }
});

test("a point in the box around a region, but outside of it, is not in it", () => {
  const shown = rows([0, 0, 2, 2, REGION, 30], [1, 1, 2, 2, REGION, 20]);
  shown.rings = [outlineOf([unit(0, 0), unit(1, 0), unit(0, 1)]), null];
  const frame = new Frame([{ rows: shown, keep: null }]);
  assert.deepEqual([find(frame, 0.5, 1.5), find(frame, 1.5, 0.5), find(frame, 1.5, 1.5), find(frame, 2.5, 0)], [0, 0, 1, -1]);
});
