// What a person fills in before taking part: position, limits, token, consent; and what will be known to whom. Knows the
// device's words. Sends nothing.

import { html } from "#vendor/lit-html.js";
import { ServerViolation } from "#device/base.js";
import { checkPair, ownOfPair } from "#device/pair.js";
import { ownOf, ownWords } from "#device/plan.js";
import { checkTask, policyOf, refusals } from "#device/task.js";

/** @typedef {{task: import("#device/task.js").Task, plan: import("#device/plan.js").Plan, pair: null} | {task: null, plan: null, pair: import("#device/pair.js").PairTask}} Pinned */

const LIMITS = [
  { name: "max_epsilon", label: "Largest loss of all your campaigns here (epsilon, delta 0)", start: 10 },
  { name: "min_k", label: "Smallest crowd (k)", start: 20 },
  { name: "max_delta", label: "Largest chance of no crowd (delta)", start: 0.001, most: 1 },
];
const SIDE = "Shortest side of a place that it names";

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
    this.limits = Object.fromEntries(LIMITS.map(({ name, start }) => [name, String(start)]));
    this.minSide = "";
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

  /** Which of the names the position has; -1 while there is no position. */
  get leaf() {
    return this.position ? Number(this.tree.codeOf(this.position)) : -1;
  }

  /** What there is to say about the position in the fields; empty while one of them is. */
  get where() {
    const { names, lower, upper } = this.tree.box;
    if (this.texts.some((text) => text.trim() === "")) return "";
    const strange = this.texts.findIndex((text) => Number.isNaN(numberOf(text)));
    if (strange >= 0) return `${names[strange]} needs a number; got ${this.texts[strange]}.`;
    if (this.position) return `Your position: ${this.tree.leafNames[this.leaf] ?? this.texts.join(", ")}.`;
    return `That is outside the domain of this campaign: ${names.map((name, axis) => `${name} ${lower[axis]} to ${upper[axis]}`).join(", ")}.`;
  }

  /** Their own value; null while it is none in the range. */
  get value() {
    const number = numberOf(this.valueText);
    return this.own && this.own.low <= number && number <= this.own.high ? number : null;
  }

  get policy() {
    const limits = Object.fromEntries(LIMITS.map(({ name }) => [name, numberOf(this.limits[name])]));
    return policyOf(/** @type {any} */ ({ ...limits, min_side: this.sides }));
  }

  /** The shortest sides as numbers: none, one for all axes, or one per axis. */
  get sides() {
    return this.minSide.trim() === "" ? [] : this.minSide.split(",").map(numberOf);
  }

  /** Limits that are not numbers, in words. */
  get strange() {
    const found = LIMITS.filter(({ name, most = Infinity }) => !(numberOf(this.limits[name]) >= 0 && numberOf(this.limits[name]) <= most))
      .map(({ name, label, most }) => `“${label}” needs a number ${most ? `from 0 to ${most}` : "of at least 0"}; got ${this.limits[name].trim() || "nothing"}`);
    return this.sides.every((side) => side >= 0 && side < Infinity) ? found : [...found, `“${SIDE}” holds lengths of at least 0; got ${this.minSide}`];
  }

  /** Why the device would refuse, in words; empty if it would not. */
  get reasons() {
    const { task, plan, pair } = this.pinned;
    if (this.strange.length) return this.strange;
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

  /** The names to choose from. */
  #names() {
    const { tree, leaf } = this;
    const choose = (/** @type {Event} */ event) => "middle" in tree && this.setPosition(tree.middle(BigInt(/** @type {HTMLSelectElement} */ (event.target).value)));
    return html`<label class="wide">${tree.box.names[0]} <select @change=${choose}>
      <option disabled .selected=${leaf < 0}>choose…</option>
      ${this.tree.leafNames.map((name, place) => html`<option value=${place} .selected=${place === leaf}>${name}</option>`)}</select></label>`;
  }

  /** @param {() => void} start */
  render(start) {
    const { pinned, tree } = this;
    const edit = (/** @type {() => void} */ change) => {
      change();
      this.changed();
    };
    const text = (/** @type {Event} */ event) => /** @type {HTMLInputElement} */ (event.target).value;
    const stay = (/** @type {Event} */ event) => event.preventDefault();
    const words = this.about.participant;
    return html`
      ${this.own ? html`<section class="card" aria-labelledby="own"><h2 id="own">Your value</h2>
        <p class="quiet">${words.value}</p>
        <form @submit=${stay}><label class="wide">${ownWords(this.own)}
          <input inputmode="decimal" autocomplete="off" .value=${this.valueText} @input=${(/** @type {Event} */ event) => edit(() => (this.valueText = text(event)))}></label></form></section>` : ""}
      <section class="card" aria-labelledby="where" ?hidden=${!this.needsPosition}><h2 id="where">1. Where you are</h2>
        <p class="quiet">${words.position} Click on the map (by keys: Tab to it, arrows move it under the cross, Enter takes it)${this.tree.leafNames.length ? ", or choose its name" : tree.isGeographic ? ", type it, or ask your browser" : ", or type it"}.</p>
        <form @submit=${stay}>
          ${this.tree.leafNames.length ? this.#names() : tree.box.names.map((name, axis) => html`<label>${name}
            <input inputmode="decimal" autocomplete="off" .value=${this.texts[axis]}
              @input=${(/** @type {Event} */ event) => edit(() => Object.assign(this, { texts: this.texts.with(axis, text(event)), note: "" }))}></label>`)}
          ${tree.isGeographic ? html`<button class="wide" type="button" @click=${() => this.locate()}>Ask my browser</button>` : ""}
        </form>
        <p role="status">${this.note || this.where}</p></section>
      <section class="card promise" aria-labelledby="whom"><h2 id="whom">2. What will be known, and to whom</h2>
        ${words.before.split("\n").map((line) => html`<p>${line}</p>`)}
      </section>
      <section class="card" aria-labelledby="limits"><h2 id="limits">3. Your limits</h2>
        <p class="quiet">This device refuses what goes beyond them, now and later.</p>
        <form @submit=${stay}>
          ${LIMITS.filter(({ name }) => pinned.task || name.startsWith("max_e")).map(({ name, label }) => html`<label>${label}
            <input inputmode="decimal" autocomplete="off" .value=${this.limits[name]} @input=${(/** @type {Event} */ event) => edit(() => (this.limits = { ...this.limits, [name]: text(event) }))}></label>`)}
          ${this.needsPosition ? html`<label>${SIDE} (${tree.isGeographic ? "km" : this.tree.leafNames.length ? "labels" : "units of the axes"}; one number, or one per axis with commas; may be empty)
            <input inputmode="decimal" autocomplete="off" .value=${this.minSide} @input=${(/** @type {Event} */ event) => edit(() => (this.minSide = text(event)))}></label>` : ""}
        </form>
        ${this.reasons.map((reason) => html`<p class="error">${reason}</p>`)}</section>
      <section class="card" aria-labelledby="agree"><h2 id="agree">4. Take part</h2>
        ${this.about.enrolment === "tokens" ? html`<form @submit=${stay}><label class="wide">Token from the campaign
          <input autocomplete="off" .value=${this.token} @input=${(/** @type {Event} */ event) => edit(() => (this.token = text(event)))}></label></form>` : ""}
        <p><label><input type="checkbox" .checked=${this.consent} @change=${() => edit(() => (this.consent = !this.consent))}> I have read what will be known, and agree.</label></p>
        <div class="buttons"><button class="start" ?disabled=${this.missing !== ""} @click=${start}>Take part</button>
          <span class="quiet">${this.missing}</span></div></section>`;
  }
}
