// What a device pins: bytes whose hash is the id that was asked for. Knows bytes. Knows no requests.

import { hex } from "#device/bytes.js";
import { ServerViolation } from "#device/errors.js";
import { sha256 } from "#device/sha256.js";

/** The bytes of a task, if they have its id. @param {Uint8Array} data @param {string} name */
export function pinned(data, name) {
  if (hex(sha256(data)) !== name) throw new ServerViolation("other-task", "the task's bytes do not have the id that was asked for");
  return data;
}
