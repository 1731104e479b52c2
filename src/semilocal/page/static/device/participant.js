// The device's machine: one participant for the whole campaign (spec/protocol.md, sections 11, 12 and 15.8). It makes no
// request and keeps no clock. Anything that is not legal is a ServerViolation and changes nothing. The state between two
// messages is two plain values, so that a vault can keep them.

import { ServerViolation, check } from "#device/errors.js";
import { equal } from "#device/bytes.js";
import { moveWord, pseudonym, reportWords, valueWords } from "#device/keys.js";
import { outputOf, valueWordCount } from "#device/mechanisms.js";
import { queryBytes, reportBytes, valueQueryBytes } from "#device/messages.js";
import { checkCell, checkTask } from "#device/policy.js";
import { forWidth, isPossible, respond, wordCount } from "#device/randomizer.js";
import { verdict } from "#device/rule.js";
import { checkSecret } from "#device/secret.js";
import { sha256 } from "#device/sha256.js";
import { epsilonOfTask } from "#device/task.js";
import { ownOf } from "#device/plan.js";
import { checkOwn, misfit, scaledValue } from "#device/values.js";

/** @typedef {import("#device/messages.js").Query} Query */
/** @typedef {import("#device/messages.js").Closed} Closed */
/** @typedef {import("#device/messages.js").ValueQuery} ValueQuery */
/** @typedef {import("#device/messages.js").ValueClosed} ValueClosed */
/** @typedef {import("#device/messages.js").ServerMessage} ServerMessage */
/** @typedef {import("#device/task.js").Task} Task */
/** @typedef {import("#device/plan.js").Plan} Plan */
/** @typedef {import("#device/policy.js").Policy} Policy */
/**
 * @typedef {object} State where a participant is between two messages of the partition
 * @property {"waiting" | "answered" | "finished" | "lost"} phase
 * @property {number} round the next one to answer, or the one that was answered
 * @property {bigint} cell
 * @property {bigint} code the deepest cell it acts from: that of its position, or the one it was moved to
 * @property {number} moves
 * @property {number} trims on its path
 * @property {number} [visitors] expected in its cell, from what is public; none in what was kept before there were any
 * @property {number} [doubt] the variance of their number; above 0 after a TRIM; none in what was kept before it was
 * @property {Uint8Array} question SHA-256 of the query that was answered
 * @property {number} answered rounds
 * @property {number | null} crowd
 */
/** @typedef {{first: number, answered: {index: number, question: Uint8Array}[]}} Released first round of values (0: not known), and which were given */

const NOTHING = new Uint8Array(0);

export class Participant {
  /**
   * @param {Task} task pinned @param {number[]} point the private position; it never leaves @param {Uint8Array} secret
   * @param {Policy} policy @param {Plan} plan pinned
   * @param {{value?: number | null, kept?: {state: State, released: Released}}} [more] the owner's own value, if the plan asks for one; what was kept, to go on after a restart
   */
  constructor(task, point, secret, policy, plan, { value = null, kept } = {}) {
    checkSecret(secret);
    if (!equal(plan.task, task.id)) throw new ServerViolation("bad-plan", "the plan belongs to another task");
    for (const index of plan.asked) {
      const words = misfit(plan.releases[index], task.tree.box);
      if (words) throw new ServerViolation("bad-plan", words);
    }
    checkTask(task, plan, policy);
    checkOwn(ownOf(plan), value);
    const code = task.tree.codeOf(point);
    this.task = task;
    this.plan = plan;
    this.policy = policy;
    this.pseudonym = pseudonym(secret, task.id);
    /** @type {State} */
    this.state = kept?.state ?? { phase: "waiting", round: 1, cell: 1n, code, moves: 0, trims: 0, visitors: 0, doubt: 0, question: NOTHING, answered: 0, crowd: null };
    /** @type {Released} */
    this.released = kept?.released ?? { first: 0, answered: [] };
    this.secret = secret;
    this.point = point;
    this.own = value;
  }

  /** The cell it ended in; null while it goes on. */
  get region() {
    return this.state.phase === "finished" ? this.state.cell : null;
  }

  /** Epsilons of what was sent so far, if the server followed the protocol: (1 + T) reports, T public, and the values. */
  get spentParts() {
    const reports = this.state.answered ? 1 + this.state.trims : 0;
    return [...Array(reports).fill(epsilonOfTask(this.task)), ...this.valueEpsilons(this.released.answered.length)];
  }

  /** Epsilons of what was sent so far, against a server that lied: every report counts but that of a roll call. */
  get exposureParts() {
    return this.exposed(this.state.answered, this.released.answered.length);
  }

  /** @param {number} answered rounds @param {number} given values */
  exposed(answered, given) {
    return [...Array(Math.min(answered, this.task.max_rounds)).fill(epsilonOfTask(this.task)), ...this.valueEpsilons(given)];
  }

  /** @param {number} given @returns {number[]} */
  valueEpsilons(given) {
    return this.released.answered.slice(0, given).map(({ index }) => this.valueEpsilon(index));
  }

  /** @param {number} index of a release that asks */
  valueEpsilon(index) {
    return this.plan.releases[index].mechanism?.epsilon ?? 0;
  }

  /** Take a message of the server; give back the bytes of the report to send, if any. @param {ServerMessage} message */
  receive(message) {
    if (!equal(message.task, this.task.id)) throw new ServerViolation("other-task", "the message belongs to another task than the one pinned");
    if (this.state.phase === "lost") return null;
    if (message.type === "value-query" || message.type === "value-closed") return this.receiveValue(message);
    if (this.state.phase === "finished") return null;
    if (message.type === "query") return this.answer(message);
    this.follow(message);
    return null;
  }

  // -- the partition ------------------------------------------------------------------------------------------------

  /** @param {Query} query */
  answer(query) {
    const { state, task } = this;
    const question = sha256(queryBytes(query.task, query.round, query.cells));
    if (state.phase === "answered" && query.round === state.round) {
      if (!equal(question, state.question)) throw new ServerViolation("changed-query", `round ${query.round} was asked before with other cells`);
      return this.report();
    }
    if (state.phase === "answered" || query.round < state.round) {
      throw new ServerViolation(query.round > state.round ? "skipped-round" : "repeated-round", `round ${query.round} was asked while round ${state.round} is open`);
    }
    if (query.round > task.max_rounds + 1) throw new ServerViolation("beyond-depth", `the task ends after round ${task.max_rounds + 1}`);
    if (query.round > state.round) throw new ServerViolation("skipped-round", `round ${query.round} was asked; the next one is ${state.round}`);
    if (!query.cells.every((cell) => task.tree.hasDepth(cell, query.round - 1))) {
      throw new ServerViolation("wrong-depth", `cells of round ${query.round} have depth ${query.round - 1}`);
    }
    if (!query.cells.includes(state.cell)) throw new ServerViolation("foreign-cells", "the query leaves out the cell that the last verdict led to");
    checkCell(task, state.cell, this.policy);
    this.checkExposure(this.exposed(state.answered + 1, this.released.answered.length));
    const report = this.report();
    this.state = { ...state, phase: "answered", question, answered: state.answered + 1 };
    return report;
  }

  /** The report for the device's cell in its round. */
  report() {
    const { task, state } = this;
    let answer = null;
    if (state.round <= task.max_rounds) {
      const randomizer = forWidth(task.randomizer, task.tree.width(state.cell));
      const words = reportWords(this.secret, task.id, state.round, state.cell, wordCount(randomizer));
      answer = respond(randomizer, task.tree.child(state.code, state.round - 1), words);
    }
    return reportBytes("report", task.id, state.round, this.pseudonym, state.cell, answer);
  }

  /** @param {Closed} closed */
  follow(closed) {
    const { state, task } = this;
    if (closed.round !== state.round) {
      throw new ServerViolation(closed.round > state.round ? "skipped-round" : "repeated-round", `round ${closed.round} was closed; the open one is ${state.round}`);
    }
    if (state.phase === "waiting") {
      this.state = { ...state, phase: "lost" };
      return;
    }
    if (!equal(sha256(queryBytes(closed.task, closed.round, closed.cells)), state.question)) {
      throw new ServerViolation("changed-query", "the closing lists other cells than the query that was answered");
    }
    const row = closed.cells.indexOf(state.cell);
    const [responders, tally, kept] = [closed.responders[row], closed.tally[row], closed.kept[row]];
    if (responders < 1) throw new ServerViolation("not-counted", "the closing counts nobody in a cell that was answered for");
    if (closed.round > task.max_rounds) {
      if (tally.length || kept.length) throw new ServerViolation("wrong-verdict", "a roll call has no tally and no verdict but STOP");
      this.state = { ...state, phase: "finished", crowd: responders };
      return;
    }
    const randomizer = forWidth(task.randomizer, task.tree.width(state.cell));
    if (tally.length !== randomizer.fanout) throw new ServerViolation("impossible-tally", "the tally does not have one number per child");
    if (!isPossible(randomizer, tally, responders)) throw new ServerViolation("impossible-tally", "no set of reports adds up to this tally");
    check(task.max_visitors === 1 || !state.trims || Boolean(state.doubt), "this device was in the middle of the task when its page was updated, and what the earlier version kept is not enough to check verdicts; leave the task");
    const path = { trims: state.trims, visitors: state.visitors ?? 0, doubt: state.doubt ?? 0 };
    const found = verdict(task, state.cell, responders, tally, path);
    if (found.kept.join() !== kept.join()) throw new ServerViolation("wrong-verdict", `children ${kept} go on, but the tally says ${found.kept}`);
    this.state = this.following(found, responders);
  }

  /** The state that follows from a verdict on this device's cell. @param {import("#device/rule.js").Verdict} found @param {number} responders @returns {State} */
  following({ kept, trimmed, visitors, doubt }, responders) {
    const { state, task } = this;
    let child = task.tree.child(state.code, state.round - 1);
    if (task.rule === "each" && !kept.includes(child)) return { ...state, phase: "finished", cell: task.tree.childCell(state.cell, child) };
    if (!kept.length) return { ...state, phase: "finished", crowd: responders };
    let { code, moves } = state;
    if (!kept.includes(child)) {
      code = task.tree.move(state.cell, state.round - 1, kept, moveWord(this.secret, task.id, state.round, state.cell));
      child = task.tree.child(code, state.round - 1);
      moves += 1;
    }
    const cell = task.tree.childCell(state.cell, child);
    const place = kept.indexOf(child);
    const path = { trims: state.trims + (trimmed ? 1 : 0), visitors: visitors[place], doubt: doubt[place] };
    return { ...state, phase: "waiting", round: state.round + 1, cell, code, moves, ...path, question: NOTHING };
  }

  /** @param {number[]} parts epsilons */
  checkExposure(parts) {
    const cap = this.policy.max_exposure;
    const exposure = parts.reduce((sum, part) => sum + part, 0);
    if (cap !== null && !(exposure <= cap * (1 + 1e-12))) {
      throw new ServerViolation("over-exposure", `another answer would expose more than the owner's limit of ${cap}`);
    }
  }

  // -- values -------------------------------------------------------------------------------------------------------

  /** @param {ValueQuery | ValueClosed} message */
  receiveValue(message) {
    const { state, plan, released } = this;
    if (state.phase !== "finished") throw new ServerViolation("ended-early", `values are asked for, but the device's cell goes on to round ${state.round}`);
    if (!equal(message.plan, plan.digest)) throw new ServerViolation("other-plan", "the message belongs to another plan than the one pinned");
    const place = plan.asked.indexOf(message.index);
    if (place < 0) throw new ServerViolation("unknown-release", `the plan asks for no value with index ${message.index}`);
    const first = message.round - place;
    if (released.first && first !== released.first) {
      const due = released.first + place;
      throw new ServerViolation(message.round > due ? "skipped-round" : "repeated-round", `release ${message.index} belongs to round ${due}, not ${message.round}`);
    }
    if (!(state.round < first && first <= this.task.max_rounds + 2)) {
      throw new ServerViolation(first > state.round ? "skipped-round" : "repeated-round", `the partition cannot have ended with round ${first - 1}`);
    }
    const given = released.answered.some(({ index }) => index === message.index);
    const answer = this.value(message.index);
    if (message.type === "value-closed") {
      if (given && !counted(message, state.cell, answer)) throw new ServerViolation("not-counted", "the closing does not count the value that this device gave");
      return null;
    }
    if (!given) {
      checkCell(this.task, state.cell, this.policy);
      this.checkExposure([...this.exposureParts, this.valueEpsilon(message.index)]);
      const question = sha256(valueQueryBytes(message));
      this.released = { first, answered: [...released.answered, { index: message.index, question }] };
    }
    return reportBytes("value-report", this.task.id, message.round, this.pseudonym, state.cell, answer);
  }

  /** The output for a release. @param {number} index */
  value(index) {
    const { task, plan, state } = this;
    const release = plan.releases[index];
    if (release.mechanism === null) throw new ServerViolation("unknown-release", `the plan asks for no value with index ${index}`);
    const unit = scaledValue(release, this.acting(), task.tree.corners(state.cell), this.own);
    const words = valueWords(this.secret, task.id, plan.digest, index, state.cell, valueWordCount(release.mechanism));
    return outputOf(release.mechanism, unit, words);
  }

  /** The position it acts from: its own, or the middle of the deepest cell it was moved to. */
  acting() {
    return this.state.moves ? this.task.tree.middle(this.state.code) : this.point;
  }
}

/** Whether a closing counts an output for a region. @param {ValueClosed} closed @param {bigint} region @param {number} answer */
function counted(closed, region, answer) {
  const row = closed.counts[closed.cells.indexOf(region)] ?? [];
  return row.some(({ output }) => output === BigInt(answer));
}
