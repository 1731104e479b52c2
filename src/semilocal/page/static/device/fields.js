// Reading the fields of messages: each reader takes a decoded MessagePack value and gives it back with its plain type,
// or refuses it. Knows types and ranges. Knows no messages.

import { InvalidInput, check } from "#device/errors.js";

/** @typedef {import("#device/msgpack.js").Value} Value */
/** @template T @typedef {(value: Value) => T} Read */

/** An integer that fits into a number. @param {number} least @param {number} most @returns {Read<number>} */
export const integer = (least, most) => (value) => {
  check(typeof value === "bigint" && value >= BigInt(least) && value <= BigInt(most), `an integer from ${least} to ${most} is needed`);
  return Number(value);
};

/** An integer of up to 64 bits. @param {bigint} least @param {bigint} most @returns {Read<bigint>} */
export const long = (least, most) => (value) => {
  check(typeof value === "bigint" && value >= least && value <= most, `an integer from ${least} to ${most} is needed`);
  return value;
};

/** @type {Read<number>} */
export const float = (value) => {
  check(typeof value === "number" && Number.isFinite(value), "a finite float is needed");
  return value;
};

/** @type {Read<boolean>} */
export const flag = (value) => {
  check(typeof value === "boolean", "true or false is needed");
  return value;
};

/** @type {Read<string>} */
export const text = (value) => {
  check(typeof value === "string", "a string is needed");
  return value;
};

/** @param {...number} lengths @returns {Read<Uint8Array>} */
export const bytes = (...lengths) => (value) => {
  check(value instanceof Uint8Array && (!lengths.length || lengths.includes(value.length)), `a byte string of ${lengths.join(" or ")} bytes is needed`);
  return value;
};

/** @template {string} T @param {...T} words @returns {Read<T>} */
export const oneOf = (...words) => (value) => {
  const found = words.find((word) => word === value);
  if (found === undefined) throw new InvalidInput(`one of ${words.join(", ")} is needed`);
  return found;
};

/** @template T @param {Read<T>} read @param {number} [most] @returns {Read<T[]>} */
export const list = (read, most = Infinity) => (value) => {
  check(Array.isArray(value) && value.length <= most, most < Infinity ? `an array of at most ${most} is needed` : "an array is needed");
  return value.map(read);
};

/** @template T @param {Read<T>} read @returns {Read<T | null>} */
export const optional = (read) => (value) => (value === null ? null : read(value));

/**
 * A map with exactly these fields in this order.
 * @template {Record<string, Read<any>>} R @param {R} readers
 * @returns {Read<{[K in keyof R]: ReturnType<R[K]>}>}
 */
export const map = (readers) => (value) => {
  const names = Object.keys(readers);
  const found = value instanceof Map ? [...value.keys()] : [];
  check(value instanceof Map && found.length === names.length && found.every((name, i) => name === names[i]), `a map with the fields ${names.join(", ")} is needed`);
  return /** @type {any} */ (Object.fromEntries([...value].map(([name, item]) => [name, readers[name](item)])));
};

/**
 * An array message: its tag, then these fields in this order. The tag is kept as `type`.
 * @template {string} T @template {Record<string, Read<any>>} R @param {T} tag @param {R} readers
 * @returns {Read<{type: T} & {[K in keyof R]: ReturnType<R[K]>}>}
 */
export const tagged = (tag, readers) => {
  const row = tuple(readers);
  return (value) => {
    check(Array.isArray(value) && value[0] === tag, `an array that begins with ${tag} is needed`);
    return { type: tag, ...row(value.slice(1)) };
  };
};

/**
 * An array with exactly these fields in this order.
 * @template {Record<string, Read<any>>} R @param {R} readers
 * @returns {Read<{[K in keyof R]: ReturnType<R[K]>}>}
 */
export const tuple = (readers) => (value) => {
  const names = Object.keys(readers);
  check(Array.isArray(value) && value.length === names.length, `an array with ${names.join(", ")} is needed`);
  return /** @type {any} */ (Object.fromEntries(names.map((name, i) => [name, readers[name](value[i])])));
};

/** Whether a text shows all that it holds. @param {string} value */
export const isPrintable = (value) => !/[^\P{C}]|[^\P{Z} ]/u.test(value);

/** Whether numbers or words ascend and differ. @param {(number | bigint)[]} values */
export const ascends = (values) => values.every((value, i) => i === 0 || values[i - 1] < value);
