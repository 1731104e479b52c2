// Means that were released, beside the answers about areas: over everybody, and of the regions that an area meets.
// Every word and number is the server's; no mean is about the area itself. Knows no server.

import { html } from "#vendor/lit-html.js";
import { corners, count, digits } from "#views/format.js";

/**
 * @typedef {{value: number, interval: [number, number], people: number}} Mean
 * @typedef {Mean & {region: string, lower: number[], upper: number[]}} RegionMean
 * @typedef {{what: string, level: number, everybody: (Mean & {about: string}) | null,
 *   regions: {about: string, areas: {regions: RegionMean[], more: number}[]} | null}} Released
 */

/** @param {Mean} mean @param {number} level */
const told = ({ value, interval: [low, high] }, level) =>
  html`<strong>${digits(value)}</strong> <small>${digits(low)} to ${digits(high)}, ${digits(100 * level)} %</small>`;

/** @param {Released} released @param {import("#map/camera.js").Domain} domain */
function regions({ regions, level, what }, domain) {
  if (!regions) return "";
  const [{ regions: rows, more }] = regions.areas;
  if (!rows.length) return html`<p class="quiet">No region with a mean meets this area.</p>`;
  return html`<details><summary>${what} in regions there</summary>
    <p class="note">Each is about ${regions.about}.${more ? ` The ${rows.length} most crowded of ${rows.length + more}.` : ""}</p>
    <div class="scroll"><table><thead><tr><th>region</th><th class="number">people</th><th class="number">mean</th></tr></thead>
    <tbody>${rows.map((row) => html`<tr>
      <td>${corners({ x0: row.lower[0], y0: row.lower[1] ?? 0, x1: row.upper[0], y1: row.upper[1] ?? 1 }, domain)}</td>
      <td class="number">${count(row.people)}</td><td class="number">${told(row, level)}</td></tr>`)}</tbody></table></div></details>`;
}

/** @param {{name: string, means: Released[]}[]} answers @param {import("#map/camera.js").Domain} domain */
export function meansOf(answers, domain) {
  const newest = answers[answers.length - 1]?.means ?? [];
  if (!newest.length) return "";
  return html`<div class="means">
    ${newest.map(({ what, everybody, level }) => (everybody ? html`<p>${what}: ${told(everybody, level)}
      <small>– about ${everybody.about} (${count(everybody.people)}), wherever they are</small></p>` : ""))}
    ${answers.map(({ name, means }, place) => (means.some((one) => one.regions) ? html`<h3>${place + 1}. ${name}</h3>${means.map((one) => regions(one, domain))}` : ""))}
  </div>`;
}
