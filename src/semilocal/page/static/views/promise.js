// The promise beside the numbers: short, and whole on demand. All words come from the server's Guarantee.

import { html } from "#vendor/lit-html.js";

/**
 * @param {{sentence: string, text: string, trust: string, simulated?: boolean}} promise
 * @param {string} [publicByDesign]
 */
export function promiseCard(promise, publicByDesign = "") {
  return html`<section class="card promise" aria-labelledby="promise-title">
    <h2 id="promise-title">What is promised</h2>
    <p>${promise.sentence}</p>
    ${publicByDesign ? html`<p class="public">${publicByDesign}</p>` : ""}
    <details>
      <summary>The whole statement</summary>
      ${promise.text.split("\n").map((line) => html`<p>${line}</p>`)}
    </details>
  </section>`;
}
