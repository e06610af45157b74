// How are Maia's documents, messages and TLS certificates written as bytes? docs/wire-format.md says it in words.

import { createHash, createPrivateKey, createPublicKey, sign, verify, type KeyObject } from "node:crypto";

// ------------------------------------------------------------ S-expressions (RFC 9804)

export type Expression = Uint8Array | Expression[];

const text = (from: string): Uint8Array => Buffer.from(from, "utf8");

/** Return the canonical form: every string behind its length. */
export function canonical(expression: Expression): Buffer {
  if (expression instanceof Uint8Array) return Buffer.concat([text(`${expression.length}:`), expression]);
  return Buffer.concat([text("("), ...expression.map(canonical), text(")")]);
}

/** Write lists of texts, bytes and lists as an expression. */
export function expr(...items: (string | Expression)[]): Expression {
  return items.map((one) => (typeof one === "string" ? text(one) : one));
}

/** Read the form for people, in which keys, certificates and types are kept in files. */
export function readAdvanced(source: string): Expression {
  const pattern = /\s*(?:(\()|(\))|"((?:[^"\\]|\\.)*)"|#([0-9a-fA-F\s]*)#|\|([A-Za-z0-9+/=\s]*)\||([^\s()"#|]+))/gy;
  const stack: Expression[][] = [[]];
  let found: RegExpExecArray | null;
  while (pattern.lastIndex < source.trimEnd().length && (found = pattern.exec(source)) !== null) {
    const [, opening, closing, quoted, hex, base64, token] = found;
    const inner = stack[stack.length - 1]!;
    if (opening) stack.push([]);
    else if (closing) {
      const done = stack.pop()!;
      if (stack.length === 0) throw new Error("a list ends that has not begun");
      stack[stack.length - 1]!.push(done);
    } else if (quoted !== undefined) inner.push(text(JSON.parse(`"${quoted}"`) as string));
    else if (hex !== undefined) inner.push(Buffer.from(hex.replace(/\s/g, ""), "hex"));
    else if (base64 !== undefined) inner.push(Buffer.from(base64, "base64"));
    else inner.push(text(token!));
  }
  const whole = stack[0]![0];
  if (stack.length !== 1 || stack[0]!.length !== 1 || whole === undefined) throw new Error("not one S-expression");
  return whole;
}

/** Read the canonical form, of a few levels and nothing behind it. */
export function readCanonical(data: Uint8Array, depthMax = 32): Expression {
  const bytes = Buffer.from(data);
  let at = 0;
  function value(depth: number): Expression {
    if (depth > depthMax) throw new Error("lists are nested too deeply");
    if (bytes[at] === 0x28) {
      const inner: Expression[] = [];
      for (at++; bytes[at] !== 0x29; ) inner.push(value(depth + 1));
      at++;
      return inner;
    }
    const colon = bytes.indexOf(0x3a, at);
    const digits = bytes.subarray(at, colon).toString("latin1");
    if (colon < 0 || !/^(0|[1-9][0-9]{0,8})$/.test(digits) || colon + 1 + Number(digits) > bytes.length) throw new Error("not canonical");
    at = colon + 1 + Number(digits);
    return bytes.subarray(colon + 1, at);
  }
  const whole = value(0);
  if (at !== bytes.length) throw new Error("bytes follow an expression");
  return whole;
}

/** Return what follows `name` in the list `(name …)` inside of an expression. */
export function field(expression: Expression, name: string): Expression[] {
  for (const one of expression instanceof Uint8Array ? [] : expression) {
    if (Array.isArray(one) && one[0] instanceof Uint8Array && Buffer.from(one[0]).toString() === name) return one.slice(1);
  }
  throw new Error(`there is no \`${name}\``);
}

export const words = (expression: Expression | undefined): string => {
  if (!(expression instanceof Uint8Array)) throw new Error("a string is missing");
  return Buffer.from(expression).toString("utf8");
};

// ------------------------------------------------------------ MessagePack, each value in its shortest form

export type Packed = null | boolean | number | bigint | string | Uint8Array | Float | Packed[];

/** A number that is written as a float of eight bytes, whole or not. */
export class Float {
  readonly value: number;
  constructor(value: number) {
    this.value = value;
  }
}

function sized(first: number[], widths: number[], length: number): Buffer {
  const at = widths.findIndex((width) => length < 2 ** (8 * width));
  const out = Buffer.alloc(1 + widths[at]!);
  out[0] = first[at]!;
  out.writeUIntBE(length, 1, widths[at]!);
  return out;
}

function packInteger(value: bigint): Buffer {
  if (value >= 0n && value < 128n) return Buffer.from([Number(value)]);
  if (value < 0n && value >= -32n) return Buffer.from([256 + Number(value)]);
  for (const [at, bits] of [8n, 16n, 32n, 64n].entries()) {
    const unsigned = value >= 0n;
    if (unsigned ? value >= 1n << bits : value < -(1n << (bits - 1n))) continue;
    const digits = BigInt.asUintN(Number(bits), value).toString(16).padStart(Number(bits) / 4, "0");
    return Buffer.concat([Buffer.from([(unsigned ? 0xcc : 0xd0) + at]), Buffer.from(digits, "hex")]);
  }
  throw new Error("an integer has more than 64 bits");
}

export function pack(value: Packed): Buffer {
  if (value === null) return Buffer.from([0xc0]);
  if (typeof value === "boolean") return Buffer.from([value ? 0xc3 : 0xc2]);
  if (typeof value === "number" || typeof value === "bigint") return packInteger(BigInt(value));
  if (value instanceof Float) {
    const out = Buffer.alloc(9, 0xcb);
    out.writeDoubleBE(value.value === 0 ? 0 : value.value, 1);  // minus zero has no form
    return out;
  }
  if (typeof value === "string") {
    const bytes = text(value);
    const short = bytes.length < 32 ? Buffer.from([0xa0 + bytes.length]) : sized([0xd9, 0xda, 0xdb], [1, 2, 4], bytes.length);
    return Buffer.concat([short, bytes]);
  }
  if (value instanceof Uint8Array) return Buffer.concat([sized([0xc4, 0xc5, 0xc6], [1, 2, 4], value.length), value]);
  const head = value.length < 16 ? Buffer.from([0x90 + value.length]) : sized([0xdc, 0xdd], [2, 4], value.length);
  return Buffer.concat([head, ...value.map(pack)]);
}

/** Read one value and nothing behind it; whole numbers beyond 2^53 are bigints. */
export function unpack(data: Buffer): Packed {
  let at = 0;
  const take = (length: number): Buffer => {
    if (at + length > data.length) throw new Error("a message is cut off");
    return data.subarray(at, (at += length));
  };
  const number = (bytes: number): number => take(bytes).readUIntBE(0, bytes);
  const whole = (value: bigint): number | bigint => (Number.isSafeInteger(Number(value)) ? Number(value) : value);
  const list = (length: number): Packed[] => {
    if (length > data.length - at) throw new Error("a list is longer than its message");
    return Array.from({ length }, value);
  };
  function value(): Packed {
    const first = number(1);
    if (first < 0x80) return first;
    if (first >= 0xe0) return first - 256;
    if (first >= 0xa0 && first < 0xc0) return take(first - 0xa0).toString("utf8");
    if (first >= 0x90 && first < 0xa0) return list(first - 0x90);
    switch (first) {
      case 0xc0: return null;
      case 0xc2: return false;
      case 0xc3: return true;
      case 0xc4: case 0xc5: case 0xc6: return take(number(1 << (first - 0xc4)));
      case 0xcb: return new Float(take(8).readDoubleBE(0));
      case 0xcc: case 0xcd: case 0xce: return number(1 << (first - 0xcc));
      case 0xcf: return whole(take(8).readBigUInt64BE(0));
      case 0xd0: case 0xd1: case 0xd2: return take(1 << (first - 0xd0)).readIntBE(0, 1 << (first - 0xd0));
      case 0xd3: return whole(take(8).readBigInt64BE(0));
      case 0xd9: case 0xda: case 0xdb: return take(number(1 << (first - 0xd9))).toString("utf8");
      case 0xdc: case 0xdd: return list(number(2 << (first - 0xdc)));
    }
    throw new Error(`a message holds 0x${first.toString(16)}, which Maia does not use`);
  }
  const found = value();
  if (at !== data.length) throw new Error("bytes follow a message");
  return found;
}

// ------------------------------------------------------------ keys, signatures, TLS certificates

const PKCS8 = Buffer.from("302e020100300506032b657004220420", "hex");
const SPKI = Buffer.from("302a300506032b6570032100", "hex");

export class Key {
  readonly secret: KeyObject;
  readonly public: Buffer;
  constructor(seed: Uint8Array) {
    this.secret = createPrivateKey({ key: Buffer.concat([PKCS8, seed]), format: "der", type: "pkcs8" });
    this.public = createPublicKey(this.secret).export({ format: "der", type: "spki" }).subarray(-32);
  }
  /** Sign the bytes of a document, behind the word for its kind. */
  sign(kind: string, body: Uint8Array): Buffer {
    return sign(null, Buffer.concat([text(`maia/1/${kind}\0`), body]), this.secret);
  }
}

/** Return whether a key has signed the bytes of a document of this kind. */
export function verified(key: Uint8Array, kind: string, body: Uint8Array, signature: Uint8Array): boolean {
  const known = createPublicKey({ key: Buffer.concat([SPKI, key]), format: "der", type: "spki" });
  return verify(null, Buffer.concat([text(`maia/1/${kind}\0`), body]), known, signature);
}

const AUTHORITY = new Key(
  createHash("sha256").update("maia/1 null authority: this key is public and proves nothing").digest(),
);

/** The certificate that every node trusts, and that proves nothing: its secret key is public. */
export const NULL_AUTHORITY = Buffer.from(
  "308201443081f7a003020102021400e622f9bee9d86391fa222ceb979d6f5d691673300506032b6570301e311c301a06035504030c134d616961206e" +
  "756c6c20617574686f726974793020170d3030303130313030303030305a180f39393939313233313233353935395a301e311c301a06035504030c13" +
  "4d616961206e756c6c20617574686f72697479302a300506032b6570032100263ceff56891e69518713ff7093b617ac6aeb899f5ef899e0a81afb837" +
  "72e903a345304330120603551d130101ff040830060101ff020100300e0603551d0f0101ff040403020204301d0603551d0e041604144958f05521b1" +
  "86259b308235555656179ba6c306300506032b65700341005293228275d4ebad0b6086a5ce4f6c9c98b705a6614726971faee6caa344073067579af9" +
  "c4257ee96d8492cf7eb9fcb70439dfa70a824937992b25a5a1da8d01", "hex");

const der = (tag: number, ...parts: Uint8Array[]): Buffer => {
  const body = Buffer.concat(parts);
  const length = body.length < 128 ? [body.length] : body.length < 256 ? [0x81, body.length] : [0x82, body.length >> 8, body.length & 255];
  return Buffer.concat([Buffer.from([tag, ...length]), body]);
};
const hex = (digits: string): Buffer => Buffer.from(digits, "hex");
const commonName = (name: string): Buffer => der(0x30, der(0x31, der(0x30, hex("0603550403"), der(0x0c, text(name)))));

/** Return the one TLS certificate of a public key, in DER. */
export function leafOf(key: Uint8Array): Buffer {
  const serial = createHash("sha256").update(Buffer.concat([text("maia/1/tls-serial\0"), key])).digest().subarray(0, 19);
  serial[18]! |= 1;
  const skipped = serial.findIndex((one) => one !== 0);
  const short = serial.subarray(skipped);
  const integer = short[0]! < 128 ? short : Buffer.concat([hex("00"), short]);
  const extensions = hex(
    "300c0603551d130101ff04023000" + "300e0603551d0f0101ff040403020780" +
    "301d0603551d250416301406082b0601050507030106082b06010505070302" +
    "301f0603551d230418301680144958f05521b186259b308235555656179ba6c306",
  );
  const body = der(0x30,
    hex("a003020102"), der(0x02, integer), hex("300506032b6570"), commonName("Maia null authority"),
    der(0x30, der(0x17, text("000101000000Z")), der(0x18, text("99991231235959Z"))),
    commonName(Buffer.from(key).toString("hex")), Buffer.concat([SPKI, key]), der(0xa3, der(0x30, extensions)));
  return der(0x30, body, hex("300506032b6570"), der(0x03, hex("00"), sign(null, body, AUTHORITY.secret)));
}

export const pem = (kind: string, data: Uint8Array): string =>
  `-----BEGIN ${kind}-----\n${Buffer.from(data).toString("base64").replace(/.{64}/g, "$&\n")}\n-----END ${kind}-----\n`;
