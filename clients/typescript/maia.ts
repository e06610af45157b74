// How does a program without Maia's library talk to a broker? Connect, show certificates, subscribe, publish, receive.
//
//   const client = await connect({ host, port, broker, network, coordinator, key, certificates });
//   for await (const event of await client.subscribe(type)) console.log(event.values);
//
// Everything that is sent and read here is described in docs/wire-format.md.

import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import * as tls from "node:tls";

import { canonical, expr, field, Float, Key, leafOf, NULL_AUTHORITY, pack, pem, readAdvanced, unpack, words } from "./encoding.ts";
import type { Expression, Packed } from "./encoding.ts";
import { isEntitled } from "./rights.ts";

const [GREETING, HELLO, WELCOME, BYE, PING, PONG] = [1, 2, 3, 4, 5, 6];
const [ADVERTISE, SUBSCRIBE, ACCEPTED, FAILED, ENDED, RENEW_ALL] = [10, 11, 14, 15, 16, 17];
const [ASK_RIGHT, RIGHT_SHOWN, PUBLISH, PUBLISHED, DELIVER] = [18, 19, 20, 21, 22];
const HANDSHAKE_BYTES = 256 << 10, MESSAGE_BYTES = 16 << 20, LABELS_REMEMBERED = 64, PUBLICATIONS_REMEMBERED = 16_384;
const TOPICS_MAX = 64, RIGHT_TIMES = 5, RIGHT_AGAIN_MS = 500;
const PUBLICATION = "publication"; // the attribute of trees whose publications may have several topics
const KINDS = ["", "string", "int", "float", "bool", "timestamp", "bytes"];

/** A refusal of the broker's, or a broken promise of the protocol; `code` never changes. */
export class MaiaError extends Error {
  readonly code: string;
  constructor(code: string, message: string) {
    super(`${message} [${code}]`);
    this.code = code;
  }
}

/** An event type as its signed definition says. */
export class EventType {
  readonly owner: Buffer;
  readonly name: string;
  readonly version: string;
  readonly attributes: { name: string; uid: string; kind: string }[];
  readonly signed: Buffer;
  /** Take the text of a `.type` file. Whether its owner has signed it is for the broker to verify. */
  constructor(source: string) {
    const document = readAdvanced(source);
    const content = (document as Expression[])[1]!;
    const [owner, name, version] = field(content, "name");
    this.signed = canonical(document);
    this.owner = Buffer.from((owner as Expression[])[1] as Uint8Array);
    this.name = words(name);
    this.version = words(version);
    this.attributes = field(content, "attributes").map((one) => {
      const [, named, uid, kind] = one as Expression[];
      return { name: words(named), uid: words(uid), kind: words(kind) };
    });
  }
}

export interface Settings {
  host: string;
  port: number;
  /** The broker's key: who else answers is not talked to. */
  broker: Uint8Array;
  network: string;
  coordinator: Uint8Array;
  key: Key;
  /** The texts of `.cert` files. */
  certificates: string[];
}

export interface ReceivedEvent {
  values: Record<string, Packed>;
  publisher: string;
  /** Microseconds since 1970. */
  publishedAt: number;
}

const ed25519 = (key: Uint8Array): Expression => expr("ed25519", key);

export const keyFromFile = (source: string): Key => new Key(field(readAdvanced(source), "seed")[0] as Uint8Array);
export const principal = (word: string): Buffer => Buffer.from(word.trim().replace(/^ed25519:/, ""), "hex");

/** Connect, and return when the broker has welcomed us. */
export async function connect(settings: Settings): Promise<Client> {
  const { key, host, port, broker } = settings;
  const socket = tls.connect({
    host, port,
    key: key.secret.export({ format: "pem", type: "pkcs8" }),
    cert: pem("CERTIFICATE", leafOf(key.public)),
    ca: pem("CERTIFICATE", NULL_AUTHORITY),
    minVersion: "TLSv1.3",
    ALPNProtocols: ["maia/1"],
    checkServerIdentity: () => undefined, // a key is who it is, whatever its host is called
  });
  await once(socket, "secureConnect");
  // The chain of TLS proves only that the peer holds the key of its leaf. A key has one leaf, so it is compared.
  const leaf = socket.getPeerX509Certificate()?.raw;
  if (socket.alpnProtocol !== "maia/1" || leaf === undefined || !leaf.equals(leafOf(broker))) {
    socket.destroy();
    throw new MaiaError("CREDENTIAL-TLS-LEAF", "another key than the broker's has answered");
  }
  const client = new Client(socket, settings);
  await client.ready;
  return client;
}

/** Return the filter of some topics of a tree: `/alarms/fire`, `/news/+/sport`, `/news/uk/#`. */
export function onTopics(...patterns: string[]): Expression {
  if (patterns.length < 1 || patterns.length > TOPICS_MAX) throw new MaiaError("INPUT-TOPICS", `name 1 to ${TOPICS_MAX} topics`);
  const each = patterns.map((one) => expr("levels", "topic", one));
  return each.length === 1 ? each[0]! : expr("or", ...each);
}

/** The publications on several topics that an application has had, on one of them. */
export class SeenPublications {
  #seen = new Set<string>();
  /** Say whether an event comes for the first time; of the same publisher, because another one could repeat a number. */
  isNew(publisher: string, number: Packed | undefined): boolean {
    if (!(number instanceof Uint8Array)) return true;
    const known = `${publisher} ${Buffer.from(number).toString("hex")}`;
    if (this.#seen.has(known)) return false;
    this.#seen.add(known);
    if (this.#seen.size > PUBLICATIONS_REMEMBERED) this.#seen.delete(this.#seen.values().next().value!);
    return true;
  }
}

interface Waiting {
  resolve: (refused: number) => void;
  reject: (problem: Error) => void;
}

export class Client {
  readonly ready: Promise<number>;
  #socket: tls.TLSSocket;
  #settings: Settings;
  #network: Expression;
  #held: Buffer = Buffer.alloc(0);
  #limit = HANDSHAKE_BYTES;
  #numbers = 0;
  #answers = new Map<number, Waiting>();
  #standing = new Map<number, { digest: Buffer; askAgain: () => Promise<void> }>();
  #subscriptions = new Map<number, Subscription>();
  #publishers = new Map<number, Publisher>();
  #renewing: NodeJS.Timeout | undefined;
  #isOpen = false;
  #entitled = new Set<string>();
  #shown = new Map<number, Buffer[]>();

  constructor(socket: tls.TLSSocket, settings: Settings) {
    this.#socket = socket;
    this.#settings = settings;
    this.#network = expr("network", expr("owner", ed25519(settings.coordinator)), expr("name", settings.network));
    this.ready = this.#answer(0);
    socket.on("data", (data: Buffer) => this.#received(data));
    socket.on("error", (problem) => this.#end(problem));
    socket.on("close", () => this.#end(new MaiaError("UNAVAILABLE-LINK", "the connection has ended")));
  }

  /** Ask for the events of a type; `filter` is an S-expression, `(and)` for all. What `seen` has does not come again. */
  async subscribe(type: EventType, filter: Expression = expr("and"), seen = new SeenPublications()): Promise<Subscription> {
    await this.#checkServed("subscribe", type);
    const ref = ++this.#numbers;
    const subscription = new Subscription(type, seen);
    this.#subscriptions.set(ref, subscription);
    await this.#ask(SUBSCRIBE!, ref, "subscribe", type, filter);
    return subscription;
  }

  /** Ask for the right to publish events of a type. */
  async advertise(type: EventType): Promise<Publisher> {
    await this.#checkServed("publish", type);
    const ref = ++this.#numbers;
    const publisher = new Publisher(type, (rows, sequence, columns) =>
      this.#send([PUBLISH!, ref, sequence, Date.now() * 1000, rows, columns, null, null]));
    this.#publishers.set(ref, publisher);
    await this.#ask(ADVERTISE!, ref, "publish", type, expr("and"));
    return publisher;
  }

  close(): void {
    this.#send([BYE!, "UNAVAILABLE-SHUTDOWN", "the client is done"]);
    this.#socket.end();
  }

  /** Hand nothing of a type over to a broker that has no right to it itself, unless the coordinator has opened the network. */
  async #checkServed(action: string, type: EventType): Promise<void> {
    const about = `${action} ${type.owner.toString("hex")} ${type.name}`;
    if (this.#isOpen || this.#entitled.has(about)) return;
    const name = canonical(expr(
      "type", expr("owner", ed25519(type.owner)), expr("name", type.name), expr("version", type.version)));
    for (let times = 0; times < RIGHT_TIMES; times++) {
      // A right that was granted a moment ago is on its way to the broker, which looks for it.
      if (times > 0) await new Promise((resolve) => setTimeout(resolve, RIGHT_AGAIN_MS));
      const id = ++this.#numbers;
      const answered = this.#answer(id);
      this.#send([ASK_RIGHT!, id, action, name]);
      await answered;
      const shown = this.#shown.get(id) ?? [];
      this.#shown.delete(id);
      const { owner, name: called, version } = type;
      if (isEntitled(this.#settings.broker, action, { kind: "type", owner, name: called, version }, shown)) {
        this.#entitled.add(about);
        return;
      }
    }
    throw new MaiaError("BROKER-HAS-NO-RIGHT", `the broker has no right to ${action} \`${type.name}\` itself, so nothing of it is handed over`);
  }

  async #ask(
    tag: number, ref: number, action: string, type: EventType, filter: Expression, stream = randomBytes(16),
  ): Promise<void> {
    const { key } = this.#settings;
    const body = canonical(expr(
      "request", expr("version", "1"), expr("action", action), this.#network,
      expr("type", expr("owner", ed25519(type.owner)), expr("name", type.name), expr("version", type.version)),
      expr("filter", filter), expr("stream", stream), expr("at", String(Date.now() * 1000)),
      expr("nonce", randomBytes(16)),
    ));
    const signer = canonical(expr("signer", ed25519(key.public)));
    const signature = canonical(expr("signature", "ed25519", key.sign("request", body)));
    const request = Buffer.concat([Buffer.from("(6:signed"), body, signer, signature, Buffer.from(")")]);
    const accepted = this.#answer(ref);
    const asked = [tag, ref, request, this.#certificates(), [type.signed]];
    this.#send(tag === SUBSCRIBE ? [...asked, null, null] : asked); // not durable
    await accepted;
    const askAgain = () => this.#ask(tag, ref, action, type, filter, stream);
    this.#standing.set(ref, { digest: createHash("sha256").update(request).digest(), askAgain });
  }

  #certificates(): Packed[] {
    return this.#settings.certificates.map((one) => canonical(readAdvanced(one)));
  }

  #answer(number: number): Promise<number> {
    return new Promise((resolve, reject) => this.#answers.set(number, { resolve, reject }));
  }

  #send(message: Packed[]): void {
    const data = pack(message);
    const length = Buffer.alloc(4);
    length.writeUInt32BE(data.length);
    this.#socket.write(Buffer.concat([length, data]));
  }

  #received(data: Buffer): void {
    this.#held = Buffer.concat([this.#held, data]);
    try {
      while (this.#held.length >= 4) {
        const length = this.#held.readUInt32BE(0);
        if (length === 0 || length > this.#limit) throw new MaiaError("PROTOCOL-MESSAGE-TOO-LARGE", `a message of ${length} bytes`);
        if (this.#held.length < 4 + length) return;
        const message = unpack(this.#held.subarray(4, 4 + length)) as Packed[];
        this.#held = this.#held.subarray(4 + length);
        this.#take(message);
      }
    } catch (problem) {
      this.#end(problem as Error);
    }
  }

  // Any in this method: the fields of a message, whose types its number says.
  #take([tag, ...fields]: any[]): void {
    switch (tag) {
      case GREETING: {
        const [version, network] = fields as [number, Buffer];
        if (version !== 1 || !canonical(this.#network).equals(network)) {
          throw new MaiaError("PROTOCOL-WRONG-NETWORK", "the broker is of another network");
        }
        const { broker, coordinator, network: called } = this.#settings;
        this.#isOpen = isEntitled(broker, "serve", { kind: "network", owner: coordinator, name: called }, fields[2] as Buffer[]);
        this.#send([HELLO!, 1, network, this.#certificates(), randomBytes(16), null]);
        break;
      }
      case WELCOME: {
        this.#limit = MESSAGE_BYTES;
        const lease = fields[0] as number;
        this.#renewing = setInterval(() => this.#renew(), (lease * 1000) / 3);
        this.#settle(0, (one) => one.resolve(lease));
        break;
      }
      case PING:
        this.#send([PONG!, fields[0]]);
        break;
      case BYE:
        throw new MaiaError(fields[0], fields[1]);
      case ACCEPTED:
        this.#settle(fields[0], (one) => one.resolve(0));
        break;
      case FAILED:
        this.#settle(fields[0], (one) => one.reject(new MaiaError(fields[1], fields[2])));
        break;
      case ENDED: {
        const problem = new MaiaError(fields[1], fields[2]);
        for (const ref of fields[0]) {
          this.#standing.delete(ref);
          this.#subscriptions.get(ref)?.end(problem);
          this.#publishers.get(ref)?.end(problem);
        }
        break;
      }
      case RIGHT_SHOWN:
        this.#shown.set(fields[0], fields[1]);
        this.#settle(fields[0], (one) => one.resolve(0));
        break;
      case PUBLISHED:
        this.#publishers.get(fields[0])?.answered(fields[1], fields[2]);
        break;
      case DELIVER:
        for (const ref of fields[0]) this.#subscriptions.get(ref)?.take(fields.slice(1));
        break;
      default: // what this client has not asked for, such as validity statements, means nothing to it
    }
  }

  /** Say that everything that was accepted is still wanted, before the lease ends; if told so, sign it again. */
  #renew(): void {
    if (this.#standing.size === 0) return;
    const digest = createHash("sha256").update("maia/1/standing\0");
    for (const [ref, asked] of [...this.#standing].sort(([one], [other]) => one - other)) {
      const number = Buffer.alloc(8);
      number.writeBigUInt64BE(BigInt(ref));
      digest.update(number).update(asked.digest);
    }
    const id = ++this.#numbers;
    this.#answer(id)
      .catch((problem: Error) => {
        if (!(problem instanceof MaiaError && problem.code.startsWith("UNAVAILABLE-"))) throw problem;
        return Promise.all([...this.#standing.values()].map((one) => one.askAgain()));
      })
      .catch((problem: Error) => this.#end(problem));
    this.#send([RENEW_ALL!, id, this.#standing.size, digest.digest()]);
  }

  #settle(number: number, how: (waiting: Waiting) => void): void {
    const waiting = this.#answers.get(number);
    this.#answers.delete(number);
    if (waiting !== undefined) how(waiting);
  }

  #end(problem: Error): void {
    clearInterval(this.#renewing);
    this.#socket.destroy();
    for (const number of [...this.#answers.keys()]) this.#settle(number, (one) => one.reject(problem));
    for (const one of this.#subscriptions.values()) one.end(problem);
    for (const one of this.#publishers.values()) one.end(problem);
  }
}

/** The events of one type, in the order in which they arrive. */
export class Subscription implements AsyncIterable<ReceivedEvent> {
  #type: EventType;
  #events: ReceivedEvent[] = [];
  #labels: string[] = [];
  #problem: Error | undefined;
  #woken: () => void = () => undefined;
  #seen: SeenPublications;

  constructor(type: EventType, seen = new SeenPublications()) {
    this.#type = type;
    this.#seen = seen;
  }

  take([publisher, stream, label, publishedAt, rows, columns]: any[]): void {
    const known = Buffer.concat([publisher, stream, label]).toString("hex");
    if (this.#labels.includes(known)) return; // it came twice, as after a repair of the network
    this.#labels = [...this.#labels, known].slice(-LABELS_REMEMBERED);
    const named = new Map(this.#type.attributes.map((one) => [one.uid, one]));
    const events = Array.from({ length: rows as number }, (): Record<string, Packed> => ({}));
    for (const [uid, number, data] of columns) {
      const attribute = named.get(uid);
      const values = unpack(data) as Packed[];
      if (attribute === undefined || KINDS[number] !== attribute.kind || values.length !== rows) {
        throw new MaiaError("PROTOCOL-COLUMNS", `column \`${uid}\` is not as the type says`);
      }
      values.forEach((one, row) => {
        if (one !== null) events[row]![attribute.name] = one instanceof Float ? one.value : one;
      });
    }
    const key = `ed25519:${Buffer.from(publisher).toString("hex")}`;
    const several = named.get(PUBLICATION)?.name ?? PUBLICATION;
    const fresh = events.filter((values) => this.#seen.isNew(key, values[several]));
    this.#events.push(...fresh.map((values) => ({ values, publisher: key, publishedAt: publishedAt as number })));
    this.#woken();
  }

  end(problem: Error): void {
    this.#problem ??= problem;
    this.#woken();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<ReceivedEvent> {
    for (;;) {
      const event = this.#events.shift();
      if (event !== undefined) yield event;
      else if (this.#problem !== undefined) throw this.#problem;
      else await new Promise<void>((resolve) => (this.#woken = resolve));
    }
  }
}

/** Publishes events of one type. */
export class Publisher {
  #type: EventType;
  #send: (rows: number, sequence: number, columns: Packed[]) => void;
  #next = 0;
  #waiting = new Map<number, Waiting>();
  #problem: Error | undefined;

  constructor(type: EventType, send: (rows: number, sequence: number, columns: Packed[]) => void) {
    this.#type = type;
    this.#send = send;
  }

  /** Publish events in one frame; return how many the broker refused. */
  publish(events: Record<string, Packed>[]): Promise<number> {
    if (this.#problem !== undefined) return Promise.reject(this.#problem);
    const columns = this.#type.attributes.map(({ name, uid, kind }): Packed => {
      const values = events.map((event): Packed => {
        const value = event[name] ?? null;
        return kind === "float" && typeof value === "number" ? new Float(value) : value;
      });
      return [uid, KINDS.indexOf(kind), pack(values)];
    });
    const sequence = this.#next++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(sequence, { resolve, reject });
      this.#send(events.length, sequence, columns);
    });
  }

  /** Publish one event on several topics of a tree that was declared for that; return on how many it was refused. */
  publishOn(topics: string[], event: Record<string, Packed>): Promise<number> {
    const each = [...new Set(topics)];
    const several = this.#type.attributes.find((one) => one.uid === PUBLICATION);
    if (each.length < 1 || each.length > TOPICS_MAX || (each.length > 1 && several === undefined)) {
      return Promise.reject(new MaiaError("INPUT-TOPICS", `name 1 to ${TOPICS_MAX} topics; several in a tree declared with \`--several\``));
    }
    const common = each.length > 1 ? { [several!.name]: randomBytes(16) } : {};
    return this.publish(each.map((topic) => ({ ...event, topic, ...common })));
  }

  answered(upto: number, refused: number): void {
    for (const [sequence, waiting] of [...this.#waiting]) {
      if (sequence > upto) continue;
      this.#waiting.delete(sequence);
      waiting.resolve(sequence === upto ? refused : 0);
    }
  }

  end(problem: Error): void {
    this.#problem ??= problem;
    for (const waiting of this.#waiting.values()) waiting.reject(problem);
    this.#waiting.clear();
  }
}
