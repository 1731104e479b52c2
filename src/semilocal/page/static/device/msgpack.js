// Canonical MessagePack (spec/protocol.md, section 3). An integer is a bigint and a float is a number, so that 1 and 1.0
// keep their bytes; a map is a Map, a byte string a Uint8Array, nil is null. Knows no messages.

import { check } from "#device/errors.js";
import { concat, equal, utf8 } from "#device/bytes.js";

/** @typedef {null | boolean | bigint | number | string | Uint8Array | any[] | Map<string, any>} Value */

const DEEPEST = 16; // no message nests deeper
const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** @param {Value} value @returns {Uint8Array} */
export function pack(value) {
  if (value === null) return Uint8Array.of(0xc0);
  if (typeof value === "boolean") return Uint8Array.of(value ? 0xc3 : 0xc2);
  if (typeof value === "bigint") return packInteger(value);
  if (typeof value === "number") return packFloat(value);
  if (typeof value === "string") {
    const data = utf8(value);
    return concat(header(data.length, 0xa0, 32, [0xd9, 0xda, 0xdb]), data);
  }
  if (value instanceof Uint8Array) return concat(header(value.length, 0, 0, [0xc4, 0xc5, 0xc6]), value);
  if (Array.isArray(value)) return concat(header(value.length, 0x90, 16, [0, 0xdc, 0xdd]), ...value.map(pack));
  check(value instanceof Map, `the protocol has no ${typeof value}`);
  const items = [...value].flatMap(([key, item]) => [pack(key), pack(item)]);
  return concat(header(value.size, 0x80, 16, [0, 0xde, 0xdf]), ...items);
}

/** @param {bigint} value */
function packInteger(value) {
  if (value >= -32n && value < 128n) return Uint8Array.of(Number(value & 255n));
  check(value >= -(2n ** 63n) && value < 2n ** 64n, `integers have 64 bits; got ${value}`);
  const sizes = [8n, 16n, 32n, 64n];
  const place = sizes.findIndex((bits) => (value >= 0n ? value < 1n << bits : value >= -(1n << (bits - 1n))));
  const view = new DataView(new ArrayBuffer(9));
  view.setUint8(0, (value >= 0n ? 0xcc : 0xd0) + place);
  const size = 1 << place;
  for (let i = size; i > 0; i--, value >>= 8n) view.setUint8(i, Number(value & 255n));
  return new Uint8Array(view.buffer, 0, size + 1);
}

/** @param {number} value */
function packFloat(value) {
  const view = new DataView(new ArrayBuffer(9));
  view.setUint8(0, 0xcb);
  view.setFloat64(1, value);
  return new Uint8Array(view.buffer);
}

/** The shortest header. @param {number} size @param {number} short @param {number} limit @param {number[]} codes */
function header(size, short, limit, codes) {
  if (size < limit) return Uint8Array.of(short | size);
  if (codes[0] && size < 256) return Uint8Array.of(codes[0], size);
  if (size < 65536) return Uint8Array.of(codes[1], size >> 8, size & 255);
  return Uint8Array.of(codes[2], size >>> 24, (size >> 16) & 255, (size >> 8) & 255, size & 255);
}

/** The value that these canonical bytes stand for; all others are refused. @param {Uint8Array} data @returns {Value} */
export function unpack(data) {
  const reader = new Reader(data);
  const value = reader.value(0);
  check(reader.at === data.length, "there are bytes after the end");
  check(equal(pack(value), data), "these are not the canonical bytes");
  return value;
}

class Reader {
  /** @param {Uint8Array} data */
  constructor(data) {
    this.data = data;
    this.view = new DataView(data.buffer, data.byteOffset, data.byteLength);
    this.at = 0;
  }

  /** Where the next bytes begin. @param {number} size */
  take(size) {
    check(this.at + size <= this.data.length, "the bytes end too early");
    this.at += size;
    return this.at - size;
  }

  /** A length of 1, 2 or 4 bytes. @param {number} bytes */
  size(bytes) {
    const at = this.take(bytes);
    return bytes === 1 ? this.view.getUint8(at) : bytes === 2 ? this.view.getUint16(at) : this.view.getUint32(at);
  }

  /** @param {number} depth @returns {Value} */
  value(depth) {
    check(depth <= DEEPEST, "the bytes nest too deep");
    const code = this.view.getUint8(this.take(1));
    if (code < 0x80) return BigInt(code);
    if (code >= 0xe0) return BigInt(code - 256);
    if (code < 0x90) return this.map(code & 15, depth);
    if (code < 0xa0) return this.array(code & 15, depth);
    if (code < 0xc0) return this.text(code & 31);
    switch (code) {
      case 0xc0: return null;
      case 0xc2: case 0xc3: return code === 0xc3;
      case 0xc4: case 0xc5: case 0xc6: return this.bytes(this.size(1 << (code - 0xc4)));
      case 0xcb: return this.view.getFloat64(this.take(8));
      case 0xcc: case 0xcd: case 0xce: return BigInt(this.size(1 << (code - 0xcc)));
      case 0xcf: return this.view.getBigUint64(this.take(8));
      case 0xd0: return BigInt(this.view.getInt8(this.take(1)));
      case 0xd1: return BigInt(this.view.getInt16(this.take(2)));
      case 0xd2: return BigInt(this.view.getInt32(this.take(4)));
      case 0xd3: return this.view.getBigInt64(this.take(8));
      case 0xd9: case 0xda: case 0xdb: return this.text(this.size(1 << (code - 0xd9)));
      case 0xdc: case 0xdd: return this.array(this.size(2 << (code - 0xdc)), depth);
      case 0xde: case 0xdf: return this.map(this.size(2 << (code - 0xde)), depth);
      default: check(false, `the protocol has no value that begins with byte ${code}`);
    }
  }

  /** @param {number} size */
  bytes(size) {
    const at = this.take(size);
    return this.data.slice(at, at + size);
  }

  /** @param {number} size */
  text(size) {
    try {
      return strict.decode(this.bytes(size));
    } catch (error) {
      check(!(error instanceof TypeError), "a string is not UTF-8");
      throw error;
    }
  }

  /** @param {number} size @param {number} depth */
  array(size, depth) {
    check(size <= this.data.length - this.at, "the bytes end too early"); // before room is made for it
    return Array.from({ length: size }, () => this.value(depth + 1));
  }

  /** @param {number} size @param {number} depth */
  map(size, depth) {
    check(size <= this.data.length - this.at, "the bytes end too early");
    const out = new Map();
    for (let i = 0; i < size; i++) {
      const key = this.value(depth + 1);
      check(typeof key === "string" && !out.has(key), "the keys of a map are different strings");
      out.set(key, this.value(depth + 1));
    }
    return out;
  }
}
