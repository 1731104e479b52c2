// Canonical MessagePack (spec/protocol.md, section 3), and readers of the fields of messages: each takes a decoded value
// and gives it back with its plain type, or refuses it. An integer is a bigint and a float is a number, so that 1 and 1.0
// keep their bytes; a byte string is a Uint8Array, nil is null. Knows types and ranges. Knows no messages.

import { Decoder, Encoder } from "#vendor/msgpack.js";
import { InvalidInput, check, equal } from "#device/base.js";

/** @typedef {null | boolean | bigint | number | string | Uint8Array | any[] | {[name: string]: any}} Value */
/** @template T @typedef {(value: Value) => T} Read */

const DEEPEST = 16; // no message nests deeper

/** The shortest integers, and floats of 64 bits whatever their value. */
class Writer extends Encoder {
  /** @override @param {number} value */
  encodeNumber(value) {
    this.encodeNumberAsFloat(value);
  }

  /** @override @param {bigint} value */
  encodeBigInt64(value) {
    check(value >= -(2n ** 63n) && value < 2n ** 64n, `integers have 64 bits; got ${value}`);
    if (value >= -(2n ** 31n) && value < 2n ** 32n) super.encodeNumber(Number(value));
    else super.encodeBigInt64(value);
  }
}

/** A float, as opposed to an integer of the same value. */
class Float {
  /** @param {number} value */
  constructor(value) {
    this.value = value;
  }
}

class Reader extends Decoder {
  /** @param {number} size of the bytes: nothing in them is longer */
  constructor(size) {
    super({ useBigInt64: true, keyDecoder: null, maxStrLength: size, maxBinLength: size, maxArrayLength: size, maxMapLength: size, maxExtLength: 0 });
  }

  /** @override */
  readF64() {
    return new Float(super.readF64());
  }

  /** @override @param {number} size */
  pushArrayState(size) {
    check(this.stack.length < DEEPEST, "the bytes nest too deep");
    super.pushArrayState(size);
  }

  /** @override @param {number} size */
  pushMapState(size) {
    check(this.stack.length < DEEPEST, "the bytes nest too deep");
    super.pushMapState(size);
  }
}

/** @param {any} value @returns {value is Record<string, any>} */
const isMap = (value) => typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;

/** A field of a map; undefined if there is none, or no map. @param {Value} value @param {string} name */
export const fieldOf = (value, name) => (isMap(value) ? /** @type {any} */ (value)[name] : undefined);

/** What was decoded, in the types of this program. @param {any} value @returns {Value} */
function settled(value) {
  if (typeof value === "number") return BigInt(value);
  if (value instanceof Float) return value.value;
  if (value instanceof Uint8Array) return value.slice();
  if (Array.isArray(value)) return value.map(settled);
  if (isMap(value)) return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, settled(item)]));
  check(value === null || ["boolean", "bigint", "string"].includes(typeof value), "the protocol has no such value");
  check(typeof value !== "string" || !/\p{Surrogate}/u.test(value), "a string is not UTF-8");
  return value;
}

/** @param {Value} value */
export const pack = (value) => new Writer({ useBigInt64: true }).encode(value);

/** The value that these canonical bytes stand for; all others are refused. @param {Uint8Array} data @returns {Value} */
export function unpack(data) {
  let value;
  try {
    value = settled(new Reader(data.length).decode(data));
  } catch (error) {
    throw new InvalidInput(`these bytes are no message: ${error instanceof Error ? error.message : error}`);
  }
  check(equal(pack(value), data), "these are not the canonical bytes");
  return value;
}

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
  const found = isMap(value) ? Object.keys(value) : [];
  check(isMap(value) && found.length === names.length && found.every((name, i) => name === names[i]), `a map with the fields ${names.join(", ")} is needed`);
  return /** @type {any} */ (Object.fromEntries(Object.entries(value).map(([name, item]) => [name, readers[name](item)])));
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
