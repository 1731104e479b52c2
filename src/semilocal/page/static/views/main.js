// The page: which view the address asks for, and when to draw it. Knows the views. Knows no campaign.

import { html, render } from "#vendor/lit-html.js";
import { CampaignView } from "#views/campaign.js";
import { CreateView } from "#views/create.js";
import { onceAFrame } from "#views/frame.js";
import { ListView } from "#views/list.js";

const root = /** @type {HTMLElement} */ (document.getElementById("page"));
const dark = matchMedia("(prefers-color-scheme: dark)");
const theme = () => (dark.matches ? "dark" : "light");
root.replaceChildren(); // the word that stood there while this was loading
/** @type {{render: () => unknown, close: () => void, title: () => string, setTheme?: (theme: "light" | "dark") => void}} */
let view;

const changed = onceAFrame(() => {
  document.title = `${view.title()} – semilocal`;
  render(html`
    <a class="skip" href="#main" @click=${(/** @type {Event} */ event) => { event.preventDefault(); document.querySelector("main")?.focus(); }}>Skip to the content</a>
    <header class="top"><a class="brand" href="#/">semilocal</a>
      <nav aria-label="Pages"><a href="#/">Campaigns</a><a href="#/new">New</a></nav></header>
    ${view.render()}`, root);
  document.querySelector("main")?.setAttribute("tabindex", "-1");
});

function open() {
  view?.close();
  const task = /^#\/campaign\/([0-9a-f]{64})$/.exec(location.hash)?.[1];
  if (task) view = new CampaignView(task, changed, theme);
  else view = location.hash === "#/new" ? new CreateView(changed) : new ListView(changed);
  changed();
}

addEventListener("hashchange", open);
dark.addEventListener("change", () => {
  view.setTheme?.(theme());
  changed();
});
open();
