// What a person fills in before taking part: position, limits, token, consent; and what will be known to whom. Knows the
// device's words. Sends nothing.

import { html } from "#vendor/lit-html.js";
import { ServerViolation } from "#device/base.js";
import { checkPair, ownOfPair } from "#device/pair.js";
import { ownOf, ownWords } from "#device/plan.js";
import { checkTask, policyOf, refusals } from "#device/task.js";

/** @typedef {{task: import("#device/task.js").Task, plan: import("#device/plan.js").Plan, pair: null} | {task: null, plan: null, pair: import("#device/pair.js").PairTask}} Pinned */

const LIMITS = [
  { name: "max_epsilon", label: "Largest loss of all your campaigns here (epsilon, delta 0)", start: "10" },
  { name: "min_k", label: "Smallest crowd (k)", start: "20" },
  { name: "max_delta", label: "Largest chance of no crowd (delta)", start: "0.001", most: 1 },
  { name: "min_side", label: "Shortest side of a place that it names", start: "" },
];

/** A number as it was typed; NaN for nothing and for words. @param {string} text */
const numberOf = (text) => (text.trim() === "" ? NaN : Number(text));

export class JoinForm {
  /** @param {Pinned} pinned @param {{enrolment: string, participant: Record<string, string>}} about its words are the server's @param {() => void} changed */
  constructor(pinned, about, changed) {
    this.pinned = pinned;
    this.about = about;
    this.changed = changed;
    this.tree = (pinned.task ?? pinned.pair).tree;
    /** @type {string[]} */
    this.texts = this.tree.box.names.map(() => "");
    this.own = pinned.pair ? ownOfPair(pinned.pair) : ownOf(pinned.plan);
    this.needsPosition = !this.own || pinned.pair?.maps !== false;
    this.valueText = "";
    this.limits = Object.fromEntries(LIMITS.map(({ name, start }) => [name, start]));
    this.token = "";
    this.consent = false;
    this.note = ""; // what the browser said when it was asked
  }

  /** The position as numbers inside the domain; null while it is none. */
  get position() {
    const { lower, upper } = this.tree.box;
    const numbers = this.texts.map(numberOf);
    return numbers.every((x, axis) => lower[axis] <= x && x <= upper[axis]) ? numbers : null;
  }

  /** What there is to say about the position in the fields; empty while one of them is. */
  get where() {
    const { names, lower, upper } = this.tree.box;
    if (this.texts.some((text) => text.trim() === "")) return "";
    if (this.position) return `Your position: ${this.texts.join(", ")}.`;
    return `That is outside the domain of this campaign: ${names.map((name, axis) => `${name} ${lower[axis]} to ${upper[axis]}`).join(", ")}.`;
  }

  /** Their own value; null while it is none in the range. */
  get value() {
    const number = numberOf(this.valueText);
    return this.own && this.own.low <= number && number <= this.own.high ? number : null;
  }

  get policy() {
    const { min_side: side, ...limits } = Object.fromEntries(LIMITS.map(({ name }) => [name, numberOf(this.limits[name])]));
    return policyOf(/** @type {any} */ ({ ...limits, min_side: this.limits.min_side.trim() ? [side] : [] }));
  }

  /** Why the device would refuse, in words; empty if it would not. */
  get reasons() {
    const { task, plan, pair } = this.pinned;
    const strange = LIMITS.find(({ name, start, most = Infinity }) => (start || this.limits[name].trim()) && !(numberOf(this.limits[name]) >= 0 && numberOf(this.limits[name]) <= most));
    if (strange) return [`“${strange.label}” needs a number ${strange.most ? `from 0 to ${strange.most}` : "of at least 0"}.`];
    try {
      const policy = this.policy;
      if (pair) {
        checkPair(pair, policy);
        return [];
      }
      const reasons = refusals(task, plan, policy).map(({ reason }) => reason);
      if (!reasons.length) checkTask(task, plan, policy);
      return reasons;
    } catch (error) {
      return [error instanceof ServerViolation ? error.reason : /** @type {Error} */ (error).message];
    }
  }

  /** What is missing before anything may be sent. */
  get missing() {
    if (this.needsPosition && !this.position) return "Give your position inside the domain.";
    if (this.own && this.value === null) return `Give your value, ${ownWords(this.own)}.`;
    if (this.about.enrolment === "tokens" && !this.token.trim()) return "Give the token that you got from the campaign.";
    if (this.reasons.length) return "Your limits do not allow this campaign.";
    return this.consent ? "" : "Say that you agree.";
  }

  /** @param {number[]} position */
  setPosition(position) {
    this.texts = position.map((x) => String(Number(x.toPrecision(9))));
    this.note = "";
    this.changed();
  }

  /** Ask the browser where it is. */
  locate() {
    const latitude = this.tree.latitudeAxis;
    this.note = "Waiting for your browser's answer…";
    this.changed();
    navigator.geolocation.getCurrentPosition(
      ({ coords }) => this.setPosition(this.tree.box.names.map((_, axis) => (axis === latitude ? coords.latitude : coords.longitude))),
      (error) => {
        this.note = `Your browser gave no position (${error.message}). Click on the map, or type it.`;
        this.changed();
      },
      { timeout: 20_000, maximumAge: 60_000 },
    );
  }

  /** A field of the form. @param {string} label @param {string} value @param {(text: string) => void} set */
  #field(label, value, set) {
    return html`<label>${label} <input inputmode="decimal" autocomplete="off" .value=${value} @input=${(/** @type {Event} */ event) => {
      set(/** @type {HTMLInputElement} */ (event.target).value);
      this.note = "";
      this.changed();
    }}></label>`;
  }

  /** @param {() => void} start */
  render(start) {
    const { pinned, tree, texts, limits } = this;
    const stay = (/** @type {Event} */ event) => event.preventDefault();
    const words = this.about.participant;
    const unit = ` (${tree.isGeographic ? "km" : "units of the axes"}; may be empty)`;
    const shown = LIMITS.filter(({ name }) => name === "max_epsilon" || (name === "min_side" ? this.needsPosition : pinned.task));
    return html`
      ${this.own ? html`<section class="card" aria-labelledby="own"><h2 id="own">Your value</h2>
        <p class="quiet">${words.value}</p>
        <form @submit=${stay}>${this.#field(ownWords(this.own), this.valueText, (text) => (this.valueText = text))}</form></section>` : ""}
      <section class="card" aria-labelledby="where" ?hidden=${!this.needsPosition}><h2 id="where">1. Where you are</h2>
        <p class="quiet">${words.position} Click on the map (by keys: Tab to it, arrows move it under the cross, Enter takes it)${tree.isGeographic ? ", type it, or ask your browser" : ", or type it"}.</p>
        <form @submit=${stay}>
          ${tree.box.names.map((name, axis) => this.#field(name, texts[axis], (text) => (this.texts = texts.with(axis, text))))}
          ${tree.isGeographic ? html`<button class="wide" type="button" @click=${() => this.locate()}>Ask my browser</button>` : ""}
        </form>
        <p role="status">${this.note || this.where}</p></section>
      <section class="card promise" aria-labelledby="whom"><h2 id="whom">2. What will be known, and to whom</h2>
        ${words.before.split("\n").map((line) => html`<p>${line}</p>`)}
      </section>
      <section class="card" aria-labelledby="limits"><h2 id="limits">3. Your limits</h2>
        <p class="quiet">This device refuses what goes beyond them, now and later.</p>
        <form @submit=${stay}>${shown.map(({ name, label }) => this.#field(label + (name === "min_side" ? unit : ""), limits[name], (text) => (limits[name] = text)))}</form>
        ${this.reasons.map((reason) => html`<p class="error">${reason}</p>`)}</section>
      <section class="card" aria-labelledby="agree"><h2 id="agree">4. Take part</h2>
        ${this.about.enrolment === "tokens" ? html`<form @submit=${stay}>${this.#field("Token from the campaign", this.token, (text) => (this.token = text))}</form>` : ""}
        <p><label><input type="checkbox" .checked=${this.consent} @change=${() => {
          this.consent = !this.consent;
          this.changed();
        }}> I have read what will be known, and agree.</label></p>
        <div class="buttons"><button class="start" ?disabled=${this.missing !== ""} @click=${start}>Take part</button>
          <span class="quiet">${this.missing}</span></div></section>`;
  }
}
