// A map in a file of its own: what a command wrote, with the same tools as the page. It can reach nothing outside.

import { html, render } from "#vendor/lit-html.js";
import { REGION } from "#map/cells.js";
import { MapPanel } from "#views/panel.js";
import { count, onceAFrame, promiseCard } from "#views/parts.js";

const root = /** @type {HTMLElement} */ (document.getElementById("page"));
const data = JSON.parse(/** @type {HTMLElement} */ (document.getElementById("data")).textContent ?? "");
const dark = matchMedia("(prefers-color-scheme: dark)");
const changed = onceAFrame(() => render(page(), root));
const panel = new MapPanel(data.domain, dark.matches ? "dark" : "light", changed);

function page() {
  const { frame } = panel.map;
  return html`<main class="campaign" id="main">
    <header class="title"><h1>${data.title}</h1></header>
    <div class="columns">
      <div class="picture">${panel.render(false)}</div>
      <div class="facts">
        <section class="card"><h2>Numbers</h2><dl>
          ${Object.entries(data.numbers).map(([name, value]) => html`<dt>${name}</dt><dd><strong>${value}</strong></dd>`)}
          <dt>regions shown</dt><dd><strong>${count(frame.count(REGION))}</strong></dd></dl></section>
        ${promiseCard(data.promise, data.public)}
      </div>
    </div>
  </main>`;
}

root.replaceChildren();
for (const round of data.rounds) panel.timeline.add(round);
panel.map.setCoast(data.coast);
dark.addEventListener("change", () => panel.map.setTheme(dark.matches ? "dark" : "light"));
panel.follow();
