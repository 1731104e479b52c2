// The messages of a task and their canonical bytes (spec/protocol.md, sections 6 and 15.2; seals: spec/http.md 5). Knows
// the form of messages. Whether one is legal at a moment is for the participant to say.

import { check } from "#device/errors.js";
import { ascends, bytes, integer, list, long, optional, tagged, tuple } from "#device/fields.js";
import { pack, unpack } from "#device/msgpack.js";

/** @typedef {import("#device/msgpack.js").Value} Value */
/** @typedef {ReturnType<typeof READERS.query>} Query */
/** @typedef {ReturnType<typeof READERS.closed>} Closed */
/** @typedef {ReturnType<typeof READERS["value-query"]>} ValueQuery */
/** @typedef {ReturnType<typeof READERS["value-closed"]>} ValueClosed */
/** @typedef {ReturnType<typeof READERS.checkpoint>} Checkpoint */
/** @typedef {ReturnType<typeof READERS.seal>} Seal */
/** @typedef {Query | Closed | ValueQuery | ValueClosed} ServerMessage */

const LARGEST = 2n ** 64n - 1n;
const id = bytes(32);
const round = integer(1, 2 ** 16);
const cell = long(1n, LARGEST);
const any = long(-(2n ** 63n), LARGEST);
const sum = integer(-(2 ** 53 - 1), 2 ** 53 - 1);
const release = { task: id, round, plan: id, index: integer(0, 63) };

/** @param {Value} value */
function cells(value) {
  const found = list(cell)(value);
  check(ascends(found), "cells ascend");
  return found;
}

/** @param {Value} value */
function kept(value) {
  const children = list(integer(0, 255))(value);
  check(ascends(children), "kept children ascend");
  return children;
}

/** @param {Value} value */
function counts(value) {
  const rows = list(tuple({ output: any, count: long(1n, LARGEST) }))(value);
  check(rows.length > 0 && ascends(rows.map((row) => row.output)), "outputs ascend, and there is at least one");
  return rows;
}

/** @param {Value} value */
function checkpoint(value) {
  return tagged("checkpoint", { task: id, round, size: long(1n, 2n ** 63n - 1n), root: id })(value);
}

const READERS = {
  query: tagged("query", { task: id, round, cells }),
  report: tagged("report", {
    task: id, round, pseudonym: bytes(16), cell,
    answer: optional((value) => (Array.isArray(value) ? list(any)(value) : any(value))),
  }),
  closed: tagged("closed", {
    task: id, round, cells, responders: list(integer(0, 2 ** 32)), tally: list(list(sum, 256)), kept: list(kept),
  }),
  "value-query": tagged("value-query", release),
  "value-report": tagged("value-report", { task: id, round, pseudonym: bytes(16), cell, answer: integer(1 - 2 ** 31, 2 ** 31 - 1) }),
  "value-closed": tagged("value-closed", { ...release, cells, counts: list(counts) }),
  checkpoint,
  seal: tagged("seal", { checkpoint, head: id, signature: bytes(0, 64) }),
};

/**
 * The message of one kind in canonical bytes; anything else is refused.
 * @template {keyof typeof READERS} K @param {Uint8Array} data @param {K} kind @returns {ReturnType<typeof READERS[K]>}
 */
export function readMessage(data, kind) {
  const message = /** @type {any} */ (READERS[kind](unpack(data)));
  for (const name of ["responders", "tally", "kept", "counts"]) {
    check(!(name in message) || message[name].length === message.cells.length, `${name} has one entry per cell`);
  }
  return message;
}

/** A message of the server, whichever it is. @param {Uint8Array} data @returns {ServerMessage} */
export function readServerMessage(data) {
  const value = unpack(data);
  const kind = Array.isArray(value) ? value[0] : null;
  check(kind === "query" || kind === "closed" || kind === "value-query" || kind === "value-closed", "not a query or a closing");
  return readMessage(data, kind);
}

/** @param {Uint8Array} task @param {number} number @param {bigint[]} asked */
export const queryBytes = (task, number, asked) => pack(["query", task, BigInt(number), asked]);

/** @param {ValueQuery} query */
export const valueQueryBytes = ({ task, round: number, plan, index }) => pack(["value-query", task, BigInt(number), plan, BigInt(index)]);

/**
 * A report; its answer is one integer, one per child, or null in a roll call.
 * @param {"report" | "value-report"} kind @param {Uint8Array} task @param {number} number @param {Uint8Array} pseudonym
 * @param {bigint} place @param {number | number[] | null} answer
 */
export function reportBytes(kind, task, number, pseudonym, place, answer) {
  const packed = answer === null ? null : Array.isArray(answer) ? answer.map(BigInt) : BigInt(answer);
  return pack([kind, task, BigInt(number), pseudonym, place, packed]);
}

/** @param {Checkpoint} point */
export const checkpointBytes = (point) => pack(["checkpoint", point.task, BigInt(point.round), point.size, point.root]);
