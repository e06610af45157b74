// A publisher and a subscriber for the shell: one JSON object a line, in and out.
//
//   node cli.ts subscribe --broker HOST:PORT --broker-key ed25519:… --network NAME --coordinator ed25519:… \
//       --key office.key --cert connect.cert --cert plates.cert --type plate.type --count 2
//   echo '[{"plate": "AE05 XYZ"}]' | node cli.ts publish …           a line is a frame of events
//
// `--topic /alarms/fire`, once or again, names topics: of each published event, and those that are subscribed to.

import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";

import type { Packed } from "./encoding.ts";
import { connect, EventType, keyFromFile, MaiaError, onTopics, principal } from "./maia.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    broker: { type: "string", default: "127.0.0.1:7400" },
    "broker-key": { type: "string", default: "" },
    network: { type: "string", default: "" },
    coordinator: { type: "string", default: "" },
    key: { type: "string", default: "" },
    cert: { type: "string", multiple: true, default: [] },
    type: { type: "string", default: "" },
    topic: { type: "string", multiple: true, default: [] },
    count: { type: "string", default: "0" },
  },
});
const say = (what: object): void => console.log(JSON.stringify(what, (_, one) => (typeof one === "bigint" ? String(one) : one)));
const [host, port] = [values.broker.slice(0, values.broker.lastIndexOf(":")), values.broker.slice(values.broker.lastIndexOf(":") + 1)];

/** Read a key file that is its owner's alone; the file that was looked at is the one that is read. */
function keyText(path: string): string {
  const file = openSync(path, constants.O_RDONLY);
  try {
    if (process.platform !== "win32" && (fstatSync(file).mode & 0o077) !== 0) {
      throw new MaiaError("CREDENTIAL-KEY-FILE-EXPOSED", `other users can read or replace the key file \`${path}\`: chmod 600`);
    }
    return readFileSync(file, "utf8");
  } finally {
    closeSync(file);
  }
}

try {
  const type = new EventType(readFileSync(values.type, "utf8"));
  const client = await connect({
    host: host!, port: Number(port),
    broker: principal(values["broker-key"]),
    network: values.network,
    coordinator: principal(values.coordinator),
    key: keyFromFile(keyText(values.key)),
    certificates: values.cert.map((path) => readFileSync(path, "utf8")),
  });
  if (positionals[0] === "publish") {
    const publisher = await client.advertise(type);
    for await (const line of createInterface({ input: process.stdin })) {
      const events = JSON.parse(line) as Record<string, Packed>[];
      const sent = values.topic.length > 0 ? events.map((one) => publisher.publishOn(values.topic, one)) : [publisher.publish(events)];
      say({ refused: (await Promise.all(sent)).reduce((one, other) => one + other, 0) });
    }
  } else {
    const subscription = await client.subscribe(type, values.topic.length > 0 ? onTopics(...values.topic) : undefined);
    say({ subscribed: type.name });
    let count = Number(values.count);
    for await (const event of subscription) {
      say(event);
      if (--count === 0) break;
    }
  }
  client.close();
} catch (problem) {
  if (!(problem instanceof MaiaError)) throw problem;
  say({ code: problem.code, message: problem.message });
  process.exitCode = 1;
}
