// May this broker do itself what it does for us? Certificates lead from an owner to the broker's key, or they do not.
//
// What is not understood here counts for nothing, so the answer may be a cautious no: quorums, names in place of keys,
// and conditions do not count. Whether a certificate was revoked is not asked, as in Maia's own clients.

import { canonical, field, readCanonical, verified, words } from "./encoding.ts";
import type { Expression } from "./encoding.ts";

const LINKS_MAX = 16, CERTIFICATES_MAX = 256;

/** What is asked about: a network, or a type. */
export interface Resource {
  kind: "network" | "type";
  owner: Uint8Array;
  name: string;
  version?: string;
}

interface Link {
  issuer: string;
  subject: string;
  mayDelegate: boolean;
}

const keyIn = (expression: Expression | undefined): string => {
  const [kind, key] = expression as Expression[];
  if (words(kind) !== "ed25519") throw new Error("another kind of subject");
  return Buffer.from(key as Uint8Array).toString("hex");
};
const moment = (word: string, unbounded: number): number =>
  word === "unbounded" ? unbounded : Date.parse(`${word.replace("_", "T")}Z`);
const has = (expression: Expression, name: string): boolean =>
  Array.isArray(expression) && expression.some((one) => Array.isArray(one) && one[0] instanceof Uint8Array && words(one[0]) === name);

function matches(pattern: string, name: string): boolean {
  const parts = pattern.split("*").map((one) => one.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join(".*")}$`, "s").test(name);
}

/** Return whom a certificate lets do this, and by whom; undefined if it does not, now, or cannot be read. */
function linkOf(data: Uint8Array, action: string, about: Resource, now: number): Link | undefined {
  try {
    const [, body, signature] = readCanonical(data) as Expression[];
    const issuer = field(body!, "issuer")[0];
    const tag = field(body!, "tag");
    const resource = field(tag, about.kind);
    const valid = field(body!, "valid");
    const begins = moment(words(field(valid, "not-before")[0]), -Infinity);
    const ends = moment(words(field(valid, "not-after")[0]), Infinity);
    const isMeant =
      words((body as Expression[])[0]) === "cert" &&
      keyIn(field(resource, "owner")[0]) === Buffer.from(about.owner).toString("hex") &&
      matches(words(field(resource, "name")[0]), about.name) &&
      (about.version === undefined || matches(words(field(resource, "version")[0]), about.version)) &&
      field(tag, "actions").some((one) => words(one) === action) &&
      !has(tag, "condition");
    if (!isMeant || !(begins <= now && now <= ends)) return undefined;
    const key = Buffer.from((issuer as Expression[])[1] as Uint8Array);
    const [, signed] = (signature as Expression[]).slice(1);
    if (!verified(key, "certificate", canonical(body!), signed as Uint8Array)) return undefined;
    return { issuer: keyIn(issuer), subject: keyIn(field(body!, "subject")[0]), mayDelegate: has(body!, "propagate") };
  } catch {
    return undefined; // no certificate that means anything here
  }
}

/** Return whether certificates give a key the right to an action, from the owner of what it is about. */
export function isEntitled(
  key: Uint8Array, action: string, about: Resource, shown: Uint8Array[], now: number = Date.now(),
): boolean {
  const wanted = Buffer.from(key).toString("hex");
  const links = shown.slice(0, CERTIFICATES_MAX).map((one) => linkOf(one, action, about, now)).filter((one) => one !== undefined);
  let holders = new Set([Buffer.from(about.owner).toString("hex")]);
  if (holders.has(wanted)) return true;
  for (let step = 0; step < LINKS_MAX; step++) {
    const given = links.filter((one) => holders.has(one.issuer));
    if (given.some((one) => one.subject === wanted)) return true;
    const next = new Set([...holders, ...given.filter((one) => one.mayDelegate).map((one) => one.subject)]);
    if (next.size === holders.size) return false;
    holders = next;
  }
  return false;
}
