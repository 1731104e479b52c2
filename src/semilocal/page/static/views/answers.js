// Answers of the map as files. Knows two formats. Knows no browser.

/**
 * @typedef {import("#map/camera.js").Rect} Rect
 * @typedef {{name: string, rect: Rect, value: number, stderr: number, low: number, high: number}} Answer
 */

/** A box as the server takes it. @param {Rect} rect @param {import("#map/camera.js").Domain} domain */
export function boxOf(rect, domain) {
  return domain.lower.length === 1 ? [[rect.x0], [rect.x1]] : [[rect.x0, rect.y0], [rect.x1, rect.y1]];
}

/** @param {string} value */
const quoted = (value) => (/[",\n\r]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);

/** @param {Answer[]} answers @param {import("#map/camera.js").Domain} domain */
export function csvOf(answers, domain) {
  const [first, second = ""] = domain.names;
  const names = [`${first}_lower`, `${second}_lower`, `${first}_upper`, `${second}_upper`].filter((name) => !name.startsWith("_"));
  const head = ["name", ...names, "count", "stderr", "low", "high"].map(quoted).join(",");
  const lines = answers.map(({ name, rect, value, stderr, low, high }) =>
    [quoted(name), ...boxOf(rect, domain).flat(), value, stderr, low, high].join(","));
  return [head, ...lines, ""].join("\n");
}

/** @param {Answer[]} answers @param {string} note */
export function geojsonOf(answers, note) {
  const features = answers.map(({ name, rect: { x0, y0, x1, y1 }, value, stderr, low, high }) => ({
    type: "Feature",
    geometry: { type: "Polygon", coordinates: [[[x0, y0], [x1, y0], [x1, y1], [x0, y1], [x0, y0]]] },
    properties: { name, count: value, stderr, low, high },
  }));
  return JSON.stringify({ type: "FeatureCollection", features, note });
}
