// Does this client write the bytes that Maia writes? Reads vectors as JSON from standard input, and says what differs.

import { readFileSync } from "node:fs";

import { canonical, Key, leafOf, NULL_AUTHORITY, pack, readAdvanced, readCanonical, unpack } from "./encoding.ts";
import { isEntitled } from "./rights.ts";

const given = JSON.parse(readFileSync(0, "utf8")) as {
  packed: string[]; leaves: Record<string, string>; authority: string; documents: [string, string][];
  signatures: [string, string, string, string][];
  /** Of a key, an action, a type's owner, name and version: what certificates say at a moment. */
  rights: [string, string, string, string, string, string[], number, boolean][];
};
const bytes = (hex: string): Buffer => Buffer.from(hex, "hex");
const wrong: string[] = [];
const check = (what: string, holds: boolean): void => void (holds || wrong.push(what));

for (const one of given.packed) check(one, pack(unpack(bytes(one))).toString("hex") === one);
for (const [key, leaf] of Object.entries(given.leaves)) check(key, leafOf(bytes(key)).toString("hex") === leaf);
for (const [text, written] of given.documents) check(text, canonical(readAdvanced(text)).toString("hex") === written);
for (const [seed, kind, body, signature] of given.signatures) {
  check(kind, new Key(bytes(seed)).sign(kind, bytes(body)).toString("hex") === signature);
}
for (const [, written] of given.documents) check(written, canonical(readCanonical(bytes(written))).toString("hex") === written);
for (const [number, [key, action, owner, name, version, shown, now, may]] of given.rights.entries()) {
  const about = { kind: "type" as const, owner: bytes(owner), name, version };
  check(`right ${number}`, isEntitled(bytes(key), action, about, shown.map(bytes), now) === may);
}
check("null authority", NULL_AUTHORITY.toString("hex") === given.authority);
console.log(JSON.stringify({ wrong }));
