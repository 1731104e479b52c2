// Questions to the map as the server takes them, and its answers as files. Knows two formats. Knows no browser.

/**
 * @typedef {import("#map/camera.js").Rect} Rect
 * @typedef {import("#map/camera.js").Area} Area
 * @typedef {{name: string, area: Area, value: number, stderr: number, low: number, high: number,
 *   means: import("#views/means.js").Released[]}} Answer
 */

/** A box as the server takes it. @param {Rect} rect @param {import("#map/camera.js").Domain} domain */
export function boxOf(rect, domain) {
  return domain.lower.length === 1 ? [[rect.x0], [rect.x1]] : [[rect.x0, rect.y0], [rect.x1, rect.y1]];
}

/** An area in GeoJSON. @param {Area} area */
function polygonOf({ x0, y0, x1, y1, ring = [[x0, y0], [x1, y0], [x1, y1], [x0, y1]] }) {
  return { type: "Polygon", coordinates: [[...ring, ring[0]]] };
}

/** What to send to ask about an area. @param {Area} area @param {import("#map/camera.js").Domain} domain @param {number} [step] that coordinates are multiples of, 0 if none is known */
export function questionOf(area, domain, step = 0) {
  const asked = area.ring ? { polygons: [polygonOf(area)] } : { boxes: [boxOf(area, domain)] };
  return step ? { ...asked, rounding: step } : asked;
}

/** @param {string} value */
const quoted = (value) => (/[",\n\r]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);

/** @param {Answer[]} answers @param {import("#map/camera.js").Domain} domain */
export function csvOf(answers, domain) {
  const [first, second = ""] = domain.names;
  const names = [`${first}_lower`, `${second}_lower`, `${first}_upper`, `${second}_upper`].filter((name) => !name.startsWith("_"));
  const drawn = answers.some(({ area }) => area.ring); // of a polygon, the corners are those of the box around it
  const head = ["name", ...names, "count", "stderr", "low", "high", ...(drawn ? ["polygon"] : [])].map(quoted).join(",");
  /** @param {Area} area */
  const text = (area) => (area.ring ? quoted(`POLYGON ((${polygonOf(area).coordinates[0].map((corner) => corner.join(" ")).join(", ")}))`) : "");
  const lines = answers.map(({ name, area, value, stderr, low, high }) =>
    [quoted(name), ...boxOf(area, domain).flat(), value, stderr, low, high, ...(drawn ? [text(area)] : [])].join(","));
  return [head, ...lines, ""].join("\n");
}

/** @param {Answer[]} answers @param {string} note */
export function geojsonOf(answers, note) {
  const features = answers.map(({ name, area, value, stderr, low, high }) => ({
    type: "Feature",
    geometry: polygonOf(area),
    properties: { name, count: value, stderr, low, high },
  }));
  return JSON.stringify({ type: "FeatureCollection", features, note });
}
