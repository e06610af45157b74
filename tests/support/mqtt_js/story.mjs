// What MQTT.js does at a gateway, in one version of the protocol: a story that ends with what was seen, as JSON.
import { readFileSync } from "node:fs";
import mqtt from "mqtt";

const { port, ca, tokens, version } = JSON.parse(process.argv[2]);
const isFive = version === 5;

async function connect(account, options = {}) {
  const client = mqtt.connect({
    protocol: "mqtts", host: "127.0.0.1", port, ca: readFileSync(ca), protocolVersion: version,
    username: account, password: tokens[account], reconnectPeriod: 0, ...options,
  });
  const inbox = [], waiting = [], refused = [];
  client.on("message", (topic, payload, packet) => {
    inbox.push([topic, payload.toString(), packet.retain]);
    waiting.shift()?.();
  });
  client.on("packetreceive", ({ cmd, properties }) => {
    const code = properties?.userProperties?.["maia-code"];
    if (code !== undefined) refused.push([cmd, code]);
  });
  const closed = new Promise((done) => client.on("close", done));
  const failed = await new Promise((done) => {
    client.once("connect", () => done(null));
    client.once("error", (problem) => done(problem.code));
  });
  client.on("error", () => {});
  const next = async () => {
    if (inbox.length === 0) await new Promise((done) => waiting.push(done));
    return inbox.shift();
  };
  return { client, next, refused, failed, closed };
}

const seen = {};
const office = await connect("office");
seen.granted = (await office.client.subscribeAsync(["plates/#"], { qos: 2 })).map(({ qos }) => qos);
const camera = await connect("camera");
seen.plates = [];
for (const qos of [0, 1, 2]) {
  await camera.client.publishAsync("plates/Soho", JSON.stringify({ plate: `of ${qos}`, speed: 31 }), { qos });
  seen.plates.push(await office.next());
}
const burst = [...Array(100).keys()];
await Promise.all(burst.map((n) => camera.client.publishAsync("plates/Soho", `{"plate":"${n}"}`, { qos: 1 })));
seen.inOrder = true;
for (const n of burst) seen.inOrder &&= (await office.next())[1] === `{"plate":"${n}"}`;

const desk = await connect("desk", { will: { topic: `news/last ${version}`, payload: Buffer.from("lost power"), qos: 1 } });
await desk.client.publishAsync("news/uk", "rain", { qos: 1, retain: true });
await office.client.subscribeAsync("news/uk", { qos: 1 });
seen.retained = await office.next();
await office.client.subscribeAsync(`news/last ${version}`, { qos: 1 });
desk.client.stream.destroy();
seen.will = await office.next();

const refusal = camera.client.publishAsync("nothing/declared", "x", { qos: 1 });
refusal.catch((problem) => (seen.reason = problem.code));
await (isFive ? refusal.catch(() => {}) : camera.closed); // 3.1.1 has no word for it
seen.refused = camera.refused;
const stranger = await connect("office", { password: "wrong" });
seen.stranger = [stranger.failed, stranger.refused];
console.log(JSON.stringify(seen));
process.exit(0);
