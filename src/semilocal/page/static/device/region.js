// What everybody knows about one region: its members, what they answered about cuts inside it, and the open question
// (spec/protocol.md, section 9). Built from the public log alone. Knows names and codes. Knows no positions and no rule.

import { concat, hex } from "#device/bytes.js";
import { partsOf } from "#device/messages.js";
import { sha256 } from "#device/sha256.js";

/** @typedef {import("#device/messages.js").Question} Question */
/** @typedef {import("#device/messages.js").Slice} Slice */
/** @typedef {import("#device/messages.js").Region} Region */
/** @typedef {import("#device/messages.js").Answer} Answer */

/** @param {Uint8Array} a @param {Uint8Array} b */
const ascending = (a, b) => {
  const at = a.findIndex((byte, i) => byte !== b[i]);
  return at < 0 ? 0 : a[at] - b[at];
};

/** The names with the smallest SHA-256(seed, name), in that order. @param {Uint8Array[]} names @param {Uint8Array} seed @param {number} count */
export function draw(names, seed, count) {
  const tickets = names.map((name) => ({ name, ticket: sha256(concat(seed, name)) }));
  return tickets.sort((a, b) => ascending(a.ticket, b.ticket)).slice(0, count).map(({ name }) => name);
}

/** The sums with one more answer. @param {number[]} tally @param {Exclude<Answer, null>} answer */
function added(tally, answer) {
  return tally.map((sum, part) => sum + (Array.isArray(answer) ? Number(answer[part]) : BigInt(part) === answer ? 1 : 0));
}

export class RegionLog {
  /** @param {Region} region */
  constructor(region) {
    this.region = region;
    /** @type {Map<string, {name: Uint8Array, late: boolean}>} by name, in hex: who announced that they are here */
    this.members = new Map();
    /** @type {Map<string, boolean>} members of the regions it was cut from, and whether they enrolled late */
    this.known = new Map();
    /** @type {Set<string>} who was asked and did not answer, and has not spoken since */
    this.silent = new Set();
    /** @type {Map<string, bigint[]>} the first cuts inside that anybody answered about */
    this.answers = new Map();
    /** @type {bigint[]} the first cuts of the questions that count in w */
    this.failed = [];
    /** @type {Question | null} */
    this.question = null;
    /** @type {Uint8Array[]} */
    this.drawn = [];
    /** @type {number[]} */
    this.tally = [];
  }

  /** Members of the roster. */
  get crowd() {
    return [...this.members.values()].filter(({ late }) => !late).length;
  }

  /** Who may be asked. @param {number} limit on answers inside @param {boolean} late whether those who enrolled late count */
  askable(limit, late) {
    return [...this.members].filter(([key, member]) => (late || !member.late) && !this.silent.has(key) && (this.answers.get(key)?.length ?? 0) < limit).map(([, { name }]) => name);
  }

  /** A question is put. @param {Question} question @param {Uint8Array} seed @param {number} limit */
  ask(question, seed, limit) {
    if (this.question === null || question.drawn !== this.question.drawn) {
      const decides = question.threshold > 0;
      this.drawn = draw(this.askable(limit, !decides), seed, question.asked);
      this.tally = partsOf(question).map(() => 0);
      if (decides) this.failed.push(question.cuts[0]);
    }
    this.question = question;
  }

  /** Who answers in this round, in hex. */
  get askedNow() {
    return this.question === null ? [] : this.drawn.slice(this.question.start, this.question.stop).map(hex);
  }

  /** The sums after this round's answers. @param {Slice | null} reports */
  sums(reports) {
    const asked = new Set(this.askedNow);
    return (reports?.entries ?? []).reduce((tally, { pseudonym, answer }) => (answer !== null && asked.has(hex(pseudonym)) ? added(tally, answer) : tally), this.tally);
  }

  /** The reports of a round that name the region. @param {Slice | null} reports @param {boolean} asked whether it had a question @param {boolean} late whether new people enrolled after the first round */
  take(reports, asked, late) {
    const awaited = new Set(asked ? this.askedNow : []);
    if (asked) this.tally = this.sums(reports);
    for (const key of awaited) this.silent.add(key);
    for (const { pseudonym, answer } of reports?.entries ?? []) {
      const key = hex(pseudonym);
      this.silent.delete(key);
      if (!this.members.has(key)) this.members.set(key, { name: pseudonym, late: this.known.get(key) ?? late });
      if (answer !== null && this.question !== null && awaited.has(key)) {
        this.answers.set(key, [...(this.answers.get(key) ?? []), this.question.cuts[0]]);
      }
    }
  }

  /** The record of a part after a split: nobody has announced it yet, walls outside no longer count. @param {Region} region */
  part(region) {
    const out = new RegionLog(region);
    const inside = (/** @type {bigint[]} */ cuts) => cuts.filter((cut) => region[0] < cut && cut < region[1]);
    for (const [key, late] of this.known) out.known.set(key, late);
    for (const [key, { late }] of this.members) out.known.set(key, late);
    out.failed = inside(this.failed);
    for (const [key, cuts] of this.answers) if (inside(cuts).length) out.answers.set(key, inside(cuts));
    return out;
  }
}
