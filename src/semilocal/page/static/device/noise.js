// The noise of a task: its parameters, and what one report costs (spec/protocol.md, section 8). Knows no answers.

import { check } from "#device/errors.js";

/** @typedef {{kind: string, epsilon?: number, scale?: number, fanout: number, margin?: string}} Fields */

/** Refuse fields that no task may have. @param {Fields} fields */
export function checkRandomizer(fields) {
  check(["randomized-response", "discrete-laplace", "paper-laplace"].includes(fields.kind), `there is no randomizer of kind ${fields.kind}`);
  const epsilon = epsilonOf(fields);
  check(epsilon >= 0.001 && epsilon <= 40, `epsilon is from 0.001 to 40; got ${epsilon}`);
  check(fields.fanout >= 2 && fields.fanout <= 256, `fanout is from 2 to 256; got ${fields.fanout}`);
  if (fields.kind === "paper-laplace") {
    check(Number.isFinite(fields.scale) && ["chernoff", "paper"].includes(fields.margin ?? ""), "scale is finite, and margin is chernoff or paper");
  }
}

/** The loss of one report between any two children (delta = 0). @param {Fields} fields */
export const epsilonOf = (fields) => (fields.kind === "paper-laplace" ? 2 / Number(fields.scale) : Number(fields.epsilon));
