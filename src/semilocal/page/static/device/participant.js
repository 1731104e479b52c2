// The device's machine: one participant for the whole campaign, and what everybody knows about its region
// (spec/protocol.md, sections 9 to 13). It makes no request and keeps no clock. Anything that is not legal is a
// ServerViolation and changes nothing. What a vault must keep is `state`; the rest follows from the public log, which a
// device that was away reads again from round 1.

/** @import { Closed, Query, Question, Region, Slice, ValueClosed, ValueQuery } from "#device/messages.js" */
/** @import { Plan } from "#device/plan.js" */
/** @import { Policy, Task } from "#device/task.js" */
import { sha256 } from "#vendor/noble-hashes.js";
import { concat, equal, hex, order, ServerViolation } from "#device/base.js";
import { checkSecret, leadsTo, nonceOf, pseudonym, reportWords, valueWord } from "#device/keys.js";
import { isSame, partsOf, regionOf, reportBytes, seedOf, valueReportBytes } from "#device/messages.js";
import { ownOf } from "#device/plan.js";
import { respond } from "#device/randomizer.js";
import { thresholdHolds } from "#device/rule.js";
import { checkRegion, checkTask } from "#device/task.js";
import { checkOwn, clippedValue, misfit, outputOf } from "#device/values.js";

/** The names with the smallest SHA-256(seed, name), in that order. @param {Uint8Array[]} names @param {Uint8Array} seed @param {number} count */
export function draw(names, seed, count) {
  const tickets = names.map((name) => ({ name, ticket: sha256(concat(seed, name)) }));
  return tickets.sort((a, b) => order(a.ticket, b.ticket)).slice(0, count).map(({ name }) => name);
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
    return (reports?.entries ?? []).reduce((tally, { pseudonym, answer }) => (asked.has(hex(pseudonym)) ? tally.map((sum, side) => sum + (BigInt(side) === answer ? 1 : 0)) : tally), this.tally);
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

/**
 * @typedef {object} State what a participant must not forget; kept before a report is sent
 * @property {Region | null} region the last one it announced
 * @property {number} round the last one it reported in; 0 before the first
 * @property {Uint8Array} question SHA-256 of the query of that round
 * @property {{round: number, cuts: bigint[]}[]} book every answer it gave
 * @property {{index: number, question: Uint8Array}[]} values releases it answered, and SHA-256 of the query
 * @property {string} stopped why it takes part no longer; empty while it does
 */

const NOTHING = new Uint8Array(0);
/** @type {State} */
export const FRESH = { region: null, round: 0, question: NOTHING, book: [], values: [], stopped: "" };

/** @param {string} token @param {string} reason @returns {never} */
function refuse(token, reason) {
  throw new ServerViolation(token, reason);
}

export class Participant {
  /**
   * @param {Task} task pinned @param {number[]} point the private position; it never leaves @param {Uint8Array} secret
   * @param {Policy} policy @param {Plan} plan pinned
   * @param {{value?: number | null, state?: State}} [more] the owner's own value, if the plan asks for one; what was kept, to go on after a restart
   */
  constructor(task, point, secret, policy, plan, { value = null, state } = {}) {
    checkSecret(secret);
    if (!equal(plan.task, task.id)) refuse("bad-plan", "the plan belongs to another task");
    for (const index of plan.asked) {
      const words = misfit(plan.releases[index], task.tree.box);
      if (words) refuse("bad-plan", words);
    }
    checkTask(task, plan, policy);
    checkOwn(ownOf(plan), value);
    this.task = task;
    this.plan = plan;
    this.policy = policy;
    this.pseudonym = pseudonym(secret, task.id);
    this.code = task.tree.codeOf(point);
    this.secret = secret;
    this.point = point;
    this.own = value;
    this.state = state ?? FRESH;
    // What follows from the public log: the region that its place is in now, and what everybody knows about it.
    this.log = new RegionLog(task.tree.ends);
    this.stayed = 1; // members of the last region it announced, when that was split
    this.round = 1; // the open one
    this.partitioned = false;
    this.seed = NOTHING;
    this.preimage = task.chain;
    /** @type {Query | null} of the open round, as observed */
    this.query = null;
    this.lost = 0; // the question (round of its draw) whose log lacks its answer
  }

  // -- what the owner may see ---------------------------------------------------------------------------------------

  /** The last region it announced; null before the first report. */
  get region() {
    return this.state.region;
  }

  /** How many of the roster the log shows in its region; of a device that stopped at a split, when it was split. */
  get members() {
    return isSame(this.state.region ?? this.log.region, this.log.region) ? this.log.crowd : this.stayed;
  }

  /** The cuts inside its region that it answered about, ascending, with multiplicity. */
  get lines() {
    const [lower, upper] = this.state.region ?? this.log.region;
    return this.state.book.flatMap(({ cuts }) => cuts.filter((cut) => lower < cut && cut < upper)).sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  }

  /** How many of its answers are about cuts strictly inside its region. */
  get inside() {
    return this.booked(this.state.region ?? this.log.region);
  }

  /** Epsilons of what was sent so far, between two positions of its region: answers inside it, and values. */
  get spentParts() {
    return [...Array(this.inside).fill(this.task.randomizer.epsilon), ...this.state.values.map(({ index }) => this.valueEpsilon(index))];
  }

  /** @param {Region} region */
  booked([lower, upper]) {
    return this.state.book.filter(({ cuts }) => cuts.some((cut) => lower < cut && cut < upper)).length;
  }

  /** @param {number} index of a release that asks */
  valueEpsilon(index) {
    return this.plan.releases[index].mechanism?.epsilon ?? 0;
  }

  // -- rounds of the partition --------------------------------------------------------------------------------------

  /** Note what the open round asks in the region of its place. @param {Query} query */
  observe(query) {
    this.checkRound(query, "asked");
    if (this.query !== null) {
      if (!equal(this.query.bytes, query.bytes)) refuse("changed-query", `round ${query.round} was asked before with other questions`);
      return;
    }
    const question = this.questionOf(query);
    if (question) {
      this.checkQuestion(question);
      this.log.ask(question, this.seed, this.task.answers);
    }
    this.query = query;
  }

  /** @param {{task: Uint8Array, round: number}} message @param {string} words */
  checkRound({ task, round }, words) {
    if (!equal(task, this.task.id)) refuse("other-task", "the message belongs to another task than the one pinned");
    if (round !== this.round || this.partitioned) refuse(round > this.round ? "skipped-round" : "repeated-round", `round ${round} was ${words}; the open one is ${this.round}`);
  }

  /** The question about the region of its place; one that overlaps it in part breaks the protocol. @param {Query} query */
  questionOf(query) {
    const [lower, upper] = this.log.region;
    const found = query.questions.find((question) => question.lower < upper && lower < question.upper);
    if (found && !isSame(regionOf(found), this.log.region)) refuse("other-region", "a question is about a region that the log does not have");
    return found;
  }

  /** @param {Question} question */
  checkQuestion(question) {
    const { log, task } = this;
    const { asked, start, threshold } = question;
    if (question.drawn === this.round) {
      const askable = log.askable(task.answers, threshold === 0).length;
      if (asked > askable) refuse("wrong-draw", `${asked} are asked, but only ${askable} may be`);
      if (start > 0) refuse("wrong-draw", "a new question begins with the first of the draw");
      if (threshold > 0 && !(question.cuts.length === 1 && thresholdHolds(task, { askable, asked, failed: log.failed.length, threshold }))) {
        refuse("weak-threshold", `${threshold} answers of ${asked} do not show a crowd of ${task.k}`);
      }
    } else if (log.question === null || !continues(question, log.question)) {
      refuse("wrong-draw", "a second portion does not continue the question before it");
    }
    if (question.cuts.length !== 1) refuse("wrong-question", "a region is cut at one place");
  }

  /** The bytes of the report for the open round; null if it has nothing to say. Keep `state` before sending it. @param {Query} query */
  answer(query) {
    this.observe(query);
    const { log, state } = this;
    if (state.stopped) return null;
    if (state.region && !(state.region[0] <= log.region[0] && log.region[1] <= state.region[1])) {
      refuse("grown-region", "the log leads to a region that is not inside the one it announced");
    }
    const digest = sha256(query.bytes);
    const again = query.round === state.round;
    if (query.round < state.round || (again && !equal(digest, state.question))) {
      refuse("repeated-round", `it reported in round ${state.round} already, to another query`);
    }
    const question = this.questionOf(query);
    if (question && question.threshold > 0) this.checkParts(question);
    if (again) return this.reportFor(query.round, this.answeredTo(query.round));
    const key = hex(this.pseudonym);
    const free = this.booked(log.region) < this.task.answers;
    const asked = free && question && log.askedNow.includes(key) ? question : undefined;
    const heard = log.members.has(key) && !(free && log.silent.has(key));
    if (!asked && heard) return null;
    const book = asked ? [...state.book, { round: query.round, cuts: asked.cuts }] : state.book;
    this.state = { ...state, region: log.region, round: query.round, question: digest, book };
    return this.reportFor(query.round, asked);
  }

  /** The open round's question, if its book has an answer to it. @param {number} number */
  answeredTo(number) {
    return this.query && this.state.book.some(({ round }) => round === number) ? this.questionOf(this.query) : undefined;
  }

  /** Refuse a question of which either part is below the owner's limits, for good: silence tells no side. @param {Question} question */
  checkParts(question) {
    try {
      for (const part of partsOf(question)) checkRegion(this.task, part, this.policy);
    } catch (error) {
      if (error instanceof ServerViolation) this.state = { ...this.state, stopped: error.message };
      throw error;
    }
  }

  /** What it says in a round. @param {number} round @param {Question} [question] that it answers */
  report(round, question) {
    let answer = null;
    if (question) {
      const [word] = reportWords(this.secret, this.task.id, round, this.log.region, question.cuts, 1);
      answer = respond(this.task.randomizer.epsilon, this.code >= question.cuts[0] ? 1 : 0, word);
    }
    return { answer, nonce: nonceOf(this.secret, this.task.id, round) };
  }

  /** The bytes of what it says in a round. @param {number} round @param {Question} [question] that it answers */
  reportFor(round, question) {
    const { answer, nonce } = this.report(round, question);
    return reportBytes(this.task.id, round, this.pseudonym, this.log.region, answer, nonce);
  }

  // -- closings -----------------------------------------------------------------------------------------------------

  /** The region whose slice it needs to follow a closing; null if nobody named the region of its place. @param {Closed} closed */
  wanted(closed) {
    return this.head(closed) ? this.log.region : null;
  }

  /** @param {Closed} closed */
  head(closed) {
    return closed.heads.find((head) => isSame(regionOf(head), this.log.region));
  }

  /** Follow the closing of the open round, with the slice of the region of its place. @param {Closed} closed @param {Slice | null} reports */
  close(closed, reports) {
    this.checkRound(closed, "closed");
    const { query } = this;
    if (query === null) return refuse("skipped-round", "a round was closed before its query was seen");
    if (this.task.chain.length && !leadsTo(closed.preimage, this.preimage)) refuse("broken-chain", "the preimage does not lead to the one before it");
    const question = this.questionOf(query);
    this.checkSlice(closed, reports);
    this.checkAnswers(question, reports);
    if (closed.verdicts.length !== query.questions.length) refuse("wrong-verdict", "a closing has one verdict per question");
    const verdict = question && closed.verdicts[query.questions.indexOf(question)];
    if (question && verdict) this.checkVerdict(question, verdict, this.log.sums(reports));
    const lost = this.isLost(reports) && question ? question.drawn : this.lost;
    this.lost = lost;
    this.log.take(reports, question !== undefined, closed.round > 1);
    if (question && verdict?.outcome === "split") {
      if (lost === question.drawn) this.state = { ...this.state, stopped: "a split left out the answer it had given" };
      if (this.state.region && isSame(this.state.region, this.log.region)) this.stayed = this.log.crowd;
      this.log = this.log.part(partsOf(question).filter(([lower, upper]) => lower <= this.code && this.code < upper)[0]);
    } else if (verdict?.outcome === "wall") this.log.question = null;
    this.seed = seedOf(closed);
    this.preimage = closed.preimage;
    this.query = null;
    this.round += 1;
    this.partitioned = closed.finished;
  }

  /** @param {Closed} closed @param {Slice | null} reports */
  checkSlice(closed, reports) {
    const head = this.head(closed);
    if ((head === undefined) !== (reports === null)) refuse("wrong-slice", "the closing and the reports of the region do not fit together");
    if (!head || !reports) return;
    const named = equal(reports.task, closed.task) && reports.round === closed.round && isSame(regionOf(reports), this.log.region);
    if (!named || reports.entries.length !== head.reports || !equal(sha256(reports.bytes), head.digest)) {
      refuse("wrong-slice", "the reports of the region are not those of the closing");
    }
  }

  /** Only those who were drawn answer, with an answer that the question has. @param {Question | undefined} question @param {Slice | null} reports */
  checkAnswers(question, reports) {
    const asked = new Set(question ? this.log.askedNow : []);
    for (const { pseudonym: name, answer } of reports?.entries ?? []) {
      if (answer === null) continue;
      if (!asked.has(hex(name))) refuse("wrong-slice", "the log has an answer of a participant who was not drawn");
      if (answer !== 0n && answer !== 1n) refuse("wrong-slice", "the log has an answer that the question does not have");
    }
  }

  /** Whether its answer of this round is not in the log; a report under its name that it did not send is refused. @param {Slice | null} reports */
  isLost(reports) {
    const question = this.answeredTo(this.round);
    const own = reports?.entries.find((entry) => equal(entry.pseudonym, this.pseudonym));
    if (!own) return question !== undefined;
    const sent = this.report(this.round, question);
    if (this.round > this.state.round || String(own.answer) !== String(sent.answer) || !equal(own.nonce, sent.nonce)) {
      refuse("changed-report", "the log has another report under its name than the one it sent");
    }
    return false;
  }

  /** @param {Question} question @param {import("#device/messages.js").Verdict} verdict @param {number[]} tally */
  checkVerdict({ stop, asked, threshold }, verdict, tally) {
    if (tally.join() !== verdict.tally.join()) refuse("wrong-tally", "the published sums are not those of the published answers");
    const whole = stop === asked;
    if (verdict.outcome === "split" && !(threshold > 0 && whole && tally.every((sum) => sum >= threshold))) {
      refuse("wrong-verdict", "the region was split, but the answers do not reach the threshold");
    }
    if (verdict.outcome === "more" && (whole || threshold === 0)) refuse("wrong-verdict", "there is no second portion to ask");
  }

  // -- values -------------------------------------------------------------------------------------------------------

  /** The bytes of the value for one release; null if its region is not asked. Keep `state` before sending it. @param {ValueQuery} query */
  value(query) {
    const { plan, state } = this;
    if (state.stopped || state.region === null) return null;
    const { region } = state;
    if (!equal(query.task, this.task.id) || !equal(query.plan, plan.digest)) refuse("other-plan", "the query belongs to another task or plan than the one pinned");
    if (!this.partitioned || query.round < this.round) refuse("too-early", "values are asked for before the partition is finished");
    const release = plan.releases[query.index];
    if (!release?.mechanism) return refuse("not-planned", `the plan has no release ${query.index} that asks for a value`);
    const clip = query.clips.find((one) => isSame(regionOf(one), region));
    if (!clip || !this.log.members.has(hex(this.pseudonym))) return null; // its announcement was lost: it would not be counted
    const digest = sha256(query.bytes);
    const given = state.values.find(({ index }) => index === query.index);
    if (given && !equal(given.question, digest)) refuse("changed-query", `release ${query.index} was asked before in another way`);
    const word = valueWord(this.secret, this.task.id, plan.digest, query.index, region);
    const answer = outputOf(release.mechanism, clippedValue(release, this.point, this.own, clip), word);
    if (!given) this.state = { ...state, round: query.round, values: [...state.values, { index: query.index, question: digest }] };
    return valueReportBytes(this.task.id, query.round, this.pseudonym, region, answer);
  }

  /** Refuse a closing of values that does not count the value that was given. @param {ValueClosed} closed @param {number} answer */
  checkCounted(closed, answer) {
    const { region } = this.state;
    const row = closed.counts[closed.regions.findIndex((one) => region && isSame(regionOf(one), region))] ?? [];
    if (!row.some(({ output }) => output === BigInt(answer))) refuse("not-counted", "the closing does not count a value that was given");
  }
}

/** Whether a question is the second portion of another. @param {Question} question @param {Question} before */
function continues(question, before) {
  const same = [question, before].map(({ lower, upper, cuts, asked, drawn, threshold }) => [lower, upper, ...cuts, asked, drawn, threshold].join());
  return same[0] === same[1] && question.start === before.stop && question.stop === question.asked;
}
