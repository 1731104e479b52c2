// What the device overrides of @msgpack/msgpack, some of which its own types call private. The version is pinned.
export class Encoder {
  constructor(options?: { useBigInt64?: boolean });
  encode(value: unknown): Uint8Array<ArrayBuffer>;
  encodeNumber(value: number): void;
  encodeNumberAsFloat(value: number): void;
  encodeBigInt64(value: bigint): void;
}
export class Decoder {
  constructor(options?: {
    useBigInt64?: boolean; keyDecoder?: null; maxStrLength?: number; maxBinLength?: number; maxArrayLength?: number; maxMapLength?: number; maxExtLength?: number;
  });
  readonly stack: { readonly length: number };
  decode(data: Uint8Array): unknown;
  readF64(): any;
  pushArrayState(size: number): void;
  pushMapState(size: number): void;
}
