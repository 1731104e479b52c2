// What a device refuses, and why. Knows words only.

/** Input that is not what it must be: bytes that are not a message, a position outside the domain, a limit that is not a number. */
export class InvalidInput extends Error {
  name = "InvalidInput";
}

/** The server broke the protocol, or asks for what the owner forbids. The token is for programs, the reason for people. */
export class ServerViolation extends Error {
  name = "ServerViolation";

  /** @param {string} token @param {string} reason */
  constructor(token, reason) {
    super(`${reason} [${token}]`);
    this.token = token;
    this.reason = reason;
  }
}

/** The owner's caps on all tasks together do not allow this one. */
export class BudgetExceeded extends Error {
  name = "BudgetExceeded";
}

/** The server gave no usable answer for longer than the owner's patience. */
export class Unreachable extends Error {
  name = "Unreachable";
}

/**
 * @param {unknown} good
 * @param {string} words what must be true
 * @returns {asserts good}
 */
export function check(good, words) {
  if (!good) throw new InvalidInput(words);
}
