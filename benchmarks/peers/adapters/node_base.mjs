// What every Node adapter shares; the verbs are described in base.py.
import { createRequire } from "node:module";
import fs from "node:fs";
import readline from "node:readline";

// Packages lie in the folder that the program is started in, not beside this file.
export const require = createRequire(process.cwd() + "/");
const pg = require("pg");
export const version = (name) => JSON.parse(fs.readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
export const DSN = process.env.BENCH_DB;
const PAD = "x".repeat(980);
export const body = (i) => ({ i, pad: PAD });
export const bodies = (from, to) => Array.from({ length: to - from }, (_, k) => body(from + k));

const CONNECTIONS = 8;
const BUSINESS = "INSERT INTO bench_order (ref, amount) VALUES ($1, $2)";
const BUSINESS_DDL = `CREATE TABLE bench_order (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, ref text NOT NULL, amount int NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now())`;
const HEADERS = {
  "content-type": "application/json",
  "webhook-id": "msg_0123456789abcdef",
  "webhook-timestamp": "1700000000",
  "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
};
const now = () => Number(process.hrtime.bigint()); // CLOCK_MONOTONIC, as Python's monotonic_ns
const out = (fields) => process.stdout.write(JSON.stringify(fields) + "\n");
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const median = (values) => values.sort((p, q) => p - q)[values.length >> 1];

async function connect() {
  const client = new pg.Client({ connectionString: DSN });
  await client.connect();
  return client;
}

async function producer(adapter, wake) {
  const client = await connect();
  const transaction = async (work) => {
    await client.query("BEGIN");
    await work();
    await client.query("COMMIT");
  };
  const business = (i) => client.query({ name: "business", text: BUSINESS, values: ["ref", i] });
  return {
    business: (i) => transaction(() => business(i)),
    both: (i) => transaction(async () => { await business(i); await adapter.enqueue(client, i, wake); }),
  };
}

async function enqueue(adapter, seconds) {
  const producers = [];
  for (let k = 0; k < CONNECTIONS; k++) producers.push(await producer(adapter, false));
  const burst = async (which, length) => {
    const began = now(), stop = began + length * 1e9;
    let total = 0;
    await Promise.all(producers.map(async (one) => {
      for (let i = 0; now() < stop; i++) { await one[which](i); total++; }
    }));
    return total / ((now() - began) / 1e9);
  };
  await burst("both", 0.15);
  const without = [], withMessage = [];
  for (let k = 0; k < 3; k++) {
    without.push(await burst("business", seconds / 6));
    withMessage.push(await burst("both", seconds / 6));
  }
  out({ without: median(without), with_message: median(withMessage) });
}

async function trickle(adapter, rate, count) {
  const one = await producer(adapter, true);
  const sent = [], began = now();
  for (let i = 0; i < count; i++) {
    const wait = (began + (i / rate) * 1e9 - now()) / 1e6;
    if (wait > 1) await sleep(wait);
    await one.both(i);
    sent.push(now());
  }
  out({ sent });
}

async function worker(adapter, profile, expect) {
  const { connections, ...settings } = adapter.profiles[profile];
  const stamps = {};
  let count = 0, begun = false, told = 0;
  const begin = () => { if (!begun) { begun = true; out({ event: "first", at: now() }); } };
  const done = () => { if (++count === expect) out({ event: "count", count }); };
  const handler = {
    drain: () => async () => { begin(); done(); },
    latency: () => async (payload) => { stamps[payload.i] ??= now(); count++; },
    http: () => posting(connections, begin, done),
  }[profile]();
  setInterval(() => { if (count !== told) { told = count; out({ event: "count", count }); } }, 10);
  const ready = async () => {
    const lines = readline.createInterface({ input: process.stdin });
    lines.once("close", () => {
      process.stdout.write(JSON.stringify({ event: "stamps", at: stamps }) + "\n", () => process.exit(0));
    });
    out({ event: "ready" });
    await new Promise((resolve) => lines.once("line", resolve));
  };
  await adapter.runWorker(settings, handler, ready);
}

function posting(connections, begin, done) {
  const { Pool } = require("undici");
  const url = new URL(process.env.BENCH_URL);
  const pool = new Pool(url.origin, { connections, pipelining: 1 });
  return async (payload) => {
    begin();
    const request = { path: url.pathname, method: "POST", headers: HEADERS, body: JSON.stringify(payload) };
    const response = await pool.request(request);
    if (response.statusCode >= 300) throw new Error(`status ${response.statusCode}`);
    await response.body.dump();
    done();
  };
}

async function fill(adapter, count) {
  const client = await connect();
  await client.query("BEGIN");
  for (let i = 0; i < count; i += 2000) await adapter.enqueueMany(client, i, Math.min(count, i + 2000));
  await client.query("COMMIT");
  out({ event: "done" });
}

async function setup(adapter) {
  const client = await connect();
  await client.query(BUSINESS_DDL);
  await adapter.setup();
  out({ event: "done" });
}

export async function main(adapter) {
  const [verb, ...args] = process.argv.slice(2);
  const { info } = adapter;
  if (verb === "worker") return worker(adapter, args[0], Number(args[1]));
  if (verb === "info") out({ count: 20000, http_count: 15000, ...info });
  else if (verb === "setup") await setup(adapter);
  else if (verb === "fill") await fill(adapter, Number(args[0]));
  else if (verb === "enqueue") await enqueue(adapter, Number(args[0]));
  else if (verb === "trickle") await trickle(adapter, Number(args[0]), Number(args[1]));
  else throw new Error(`unknown verb: ${verb}`);
  process.stdout.write("", () => process.exit(0));
}
