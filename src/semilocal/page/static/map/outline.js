// The outline of a region on a map. Knows boxes, and codes of a tree. Knows no browser.

/** @typedef {{lower: number[], upper: number[]}} Box */

/**
 * What to draw for a region and the lines in it: outlines of its parts.
 * @param {{axes: number, intervalCells: (lower: bigint, upper: bigint) => bigint[], corners: (cell: bigint) => Box}} tree
 * @param {[bigint, bigint]} region @param {bigint[]} cuts inside it @returns {import("#map/camera.js").Area[]}
 */
export function marksOf(tree, [lower, upper], cuts) {
  const edges = [lower, ...new Set(cuts), upper].sort((a, b) => (a < b ? -1 : 1));
  return edges.slice(1).flatMap((edge, i) => {
    const boxes = tree.intervalCells(edges[i], edge).map((cell) => tree.corners(cell));
    if (tree.axes === 1 || !("kind" in tree)) return boxes.map(({ lower: low, upper: high }) => ({ x0: low[0], y0: low[1] ?? 0, x1: high[0], y1: high[1] ?? 1 }));
    return outlineOf(boxes).map((flat) => {
      const ring = /** @type {[number, number][]} */ (Array.from({ length: flat.length / 2 }, (_, at) => [flat[2 * at], flat[2 * at + 1]]));
      const [xs, ys] = [ring.map(([x]) => x), ring.map(([, y]) => y)];
      return { x0: Math.min(...xs), y0: Math.min(...ys), x1: Math.max(...xs), y1: Math.max(...ys), ring };
    });
  });
}

/**
 * The outline of boxes that meet, such as the cells of a region: the outer ring, then holes; x, y, x, y, …, closed.
 * Sides of neighbours cancel. Where four pieces meet the walk turns to the right, so that no ring touches itself.
 * @param {Box[]} boxes of two dimensions, with the same numbers where they meet
 * @returns {number[][]}
 */
export function outlineOf(boxes) {
  const level = pieces(boxes.flatMap(({ lower, upper }) => [[lower[1], lower[0], upper[0], 1], [upper[1], lower[0], upper[0], -1]]));
  const upright = pieces(boxes.flatMap(({ lower, upper }) => [[upper[0], lower[1], upper[1], 1], [lower[0], lower[1], upper[1], -1]]));
  const key = (/** @type {number} */ x, /** @type {number} */ y, /** @type {number} */ direction) => `${x},${y},${direction}`;
  const ups = new Map(upright.map(([x, start, end]) => [key(x, start, Math.sign(end - start)), [x, end, Math.sign(end - start)]]));
  const rights = new Map(level.sort((a, b) => a[0] - b[0] || a[1] - b[1]).map((piece) => [key(piece[1], piece[0], Math.sign(piece[2] - piece[1])), piece]));
  const open = new Set(rights.keys());
  const rings = [];
  for (const first of rights.keys()) {
    const ring = [];
    for (let at = first; open.delete(at); ) {
      const [y, start, end] = /** @type {number[]} */ (rights.get(at));
      ring.push(start, y, end, y);
      const right = Math.sign(end - start);
      const [x, stop, up] = /** @type {number[]} */ (ups.get(key(end, y, -right)) ?? ups.get(key(end, y, right)));
      at = rights.has(key(x, stop, up)) ? key(x, stop, up) : key(x, stop, -up);
    }
    if (ring.length) rings.push([...ring, ring[0], ring[1]]);
  }
  return rings;
}

/** What is left of sides [line, from, to, direction]: their longest pieces [line, start, end]. @param {number[][]} sides @returns {number[][]} */
function pieces(sides) {
  /** @type {Map<number, Map<number, number>>} */
  const lines = new Map();
  for (const [line, low, high, direction] of sides) {
    const changes = lines.get(line) ?? new Map();
    changes.set(low, (changes.get(low) ?? 0) + direction);
    changes.set(high, (changes.get(high) ?? 0) - direction);
    lines.set(line, changes);
  }
  const out = [];
  for (const [line, changes] of lines) {
    let [walks, start] = [0, 0];
    for (const [place, change] of [...changes].filter((one) => one[1] !== 0).sort((a, b) => a[0] - b[0])) {
      if (walks > 0) out.push([line, start, place]);
      if (walks < 0) out.push([line, place, start]);
      [walks, start] = [walks + change, place];
    }
  }
  return out;
}
