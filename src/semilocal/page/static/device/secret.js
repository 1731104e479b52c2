// What a device's secret is. Knows its length.

import { check } from "#device/errors.js";

export const SECRET_BYTES = 32;

/** @param {Uint8Array} secret */
export function checkSecret(secret) {
  check(secret.length === SECRET_BYTES, `a secret has ${SECRET_BYTES} bytes; got ${secret.length}`);
}
