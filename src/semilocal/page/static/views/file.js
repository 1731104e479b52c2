// A map in a file of its own: what a command wrote, with the same tools as the page. It can reach nothing outside. The address
// keeps what is seen and which rectangles were asked about: #view=x,y,width&q=name;x0,y0,x1,y1.

import { html, render } from "#vendor/lit-html.js";
import { CountTree } from "#map/answer.js";
import { areaOf, pairs } from "#map/camera.js";
import { Ask } from "#views/ask.js";
import { MapPanel } from "#views/panel.js";
import { count, onceAFrame, promiseCard } from "#views/parts.js";

/** @param {any} data what page/single.py wrote */
export function open(data) {
  const root = /** @type {HTMLElement} */ (document.getElementById("page"));
  const { domain } = data;
  const tree = data.tree && new CountTree(data.tree, domain);
  const asked = new URLSearchParams(location.hash.slice(1));
  const changed = onceAFrame(() => {
    panel.map.setMarks(ask.answers.map(({ area }) => area));
    render(page(), root);
    keep();
  });
  const ask = new Ask("", domain, changed, (area) => Promise.resolve({ counts: [tree.answer(area)], note: data.note }));
  const panel = new MapPanel(domain, changed, tree ? (area) => void ask.ask(area) : undefined);

  /** Write the address. */
  function keep() {
    const { seen } = panel.map;
    const parts = seen ? [`view=${seen.map((number) => Number(number.toPrecision(7))).join(",")}`] : [];
    if (tree) for (const { name, area: { x0, y0, x1, y1, ring } } of ask.answers) if (!ring) parts.push(`q=${encodeURIComponent(name)};${[x0, y0, x1, y1].map((number) => Number(number.toPrecision(9))).join(",")}`);
    const hash = parts.length ? `#${parts.join("&")}` : "";
    if (location.protocol !== "about:" && hash !== location.hash) history.replaceState(null, "", hash || location.pathname + location.search);
  }

  /** The questions of the command, then view and questions of the address. */
  async function restore() {
    ask.answers = data.asked.map((/** @type {any} */ { ring, ...one }) => ({ ...one, area: areaOf(pairs(ring)) }));
    const [x, y, span] = (asked.get("view") ?? "").split(",").map(Number);
    if (span > 0 && Number.isFinite(x + y)) panel.map.lookAt({ x0: x - span / 2, y0: y, x1: x + span / 2, y1: y }, 0);
    for (const one of tree ? asked.getAll("q") : []) {
      const at = one.lastIndexOf(";");
      const corners = one.slice(at + 1).split(",").map(Number);
      if (at < 0 || corners.length !== 4 || !corners.every(Number.isFinite)) continue;
      const [x0, y0, x1, y1] = corners;
      await ask.ask({ x0, y0, x1, y1 }, one.slice(0, at));
    }
  }

  function page() {
    const { frame } = panel.layer;
    return html`<main class="campaign" id="main">
      <header class="title"><h1>${data.title}</h1></header>
      <div class="columns">
        <div class="picture">${panel.render(Boolean(tree))}</div>
        <div class="facts">
          ${tree || ask.answers.length ? ask.card(true, true) : ""}
          <section class="card"><h2>Numbers</h2><dl>
            ${Object.entries(data.numbers).map(([name, value]) => html`<dt>${name}</dt><dd><strong>${value}</strong></dd>`)}
            <dt>regions shown</dt><dd><strong>${count(frame.size - frame.open)}</strong></dd></dl></section>
          ${promiseCard(data.promise, data.public)}
        </div>
      </div>
    </main>`;
  }

  root.replaceChildren();
  ask.total = data.people;
  ask.fixed = !tree;
  ask.show = (area) => panel.map.lookAt(area);
  panel.map.onMove = changed;
  for (const round of data.rounds) panel.timeline.add({ ...round, rows: round.rows ?? tree.rows(domain) });
  panel.map.setGround(data.ground);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed); // the legend is a picture
  panel.follow();
  void restore().then(changed);
}
