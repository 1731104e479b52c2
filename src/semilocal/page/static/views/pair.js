// What is different about a task of two servers: both operators, uploads instead of rounds, one map at the end.
// Knows words. Knows no server.

import { html } from "#vendor/lit-html.js";
import { count, duration } from "#views/format.js";

/**
 * @typedef {{phase: string, received: number, accepted: number | null, refused: number, waits_for: string | null,
 *   level: string | null, progress: number | null, deadline: number | null, now: number, fault: string | null}} PairState
 */

/** The state as the page of a campaign takes it: the map is round 1, and comes at the end. @param {PairState} state */
export function asCampaign(state) {
  return { ...state, round: 1, closed: state.phase === "done" ? 1 : 0, enrolled: state.received };
}

/** Whether nothing will change any more. @param {string} phase */
export function isOver(phase) {
  return ["finished", "cancelled", "done"].includes(phase);
}

/** @param {PairState} state @param {number} now in the server's seconds */
export function pairStatus(state, now) {
  const open = state.phase === "open";
  return html`<section class="card status" aria-labelledby="status-title">
    <h2 id="status-title">Where it stands</h2>
    <dl>
      <dt>uploads</dt><dd><strong>${count(state.received)}</strong></dd>
      ${state.accepted !== null ? html`<dt>taken into account</dt><dd><strong>${count(state.accepted)}</strong></dd>` : ""}
      ${state.refused ? html`<dt>refused</dt><dd>${count(state.refused)} <small>the helper could not read them</small></dd>` : ""}
      ${open && state.deadline !== null ? html`<dt>time left</dt><dd>${duration(state.deadline - now)}</dd>` : ""}
      ${state.phase === "levels" && state.progress !== null ? html`<dt>this level</dt><dd><progress max="1" value=${state.progress} aria-label="progress of this level"></progress></dd>` : ""}
      ${state.waits_for && !isOver(state.phase) ? html`<dt>waits for</dt><dd>${state.waits_for}</dd>` : ""}
    </dl>
    ${state.fault ? html`<p class="error">${state.fault}</p>` : ""}
  </section>`;
}

/** @param {{operators: {role: string, name: string, origin: string, key: string}[], notes: string[], role: string}} about */
export function operatorsCard(about) {
  return html`<section class="card operators" aria-labelledby="operators-title">
    <h2 id="operators-title">Two operators</h2>
    ${about.notes.map((note) => html`<p class="public">${note}</p>`)}
    <dl>${about.operators.map((one) => html`<dt>${one.role}${one.role === about.role ? " (this server)" : ""}</dt>
      <dd><strong>${one.name}</strong><br /><small>${one.origin}<br />key ${one.key.slice(0, 16)}…</small></dd>`)}</dl>
  </section>`;
}
