// pg-boss: send({db}) in the caller's transaction, work() in batches with burst polling. Completed
// jobs stay in the job table. The queue with notify is used only to measure its wake-up.
import { main, require, version, DSN, body, bodies } from "./node_base.mjs";
const { PgBoss } = require("pg-boss");

const off = { supervise: false, schedule: false };
const burst = { localConcurrency: 2, pollingIntervalSeconds: 0.5, burstWhenBatchFull: true };
const wrapped = (client) => ({ executeSql: (text, values) => client.query(text, values) });

async function open(options) {
  const boss = new PgBoss({ connectionString: DSN, max: 10, ...off, ...options });
  boss.on("error", (error) => console.error(error.message));
  await boss.start();
  return boss;
}

let shared; // one for all producers of the process
const sender = () => (shared ??= open({ migrate: false, createSchema: false }));

await main({
  info: {
    version: version("pg-boss"),
    reset_sql: "DELETE FROM pgboss.job WHERE name IN ('hook', 'hook_notify')",
    pending_sql: "SELECT EXISTS (SELECT 1 FROM pgboss.job WHERE name = 'hook' AND state < 'completed')",
    left_sql: "SELECT count(*) FROM pgboss.job WHERE name = 'hook' AND state < 'completed'",
  },
  profiles: {
    drain: { queue: "hook", work: { batchSize: 500, ...burst } },
    http: { queue: "hook", work: { batchSize: 128, ...burst }, connections: 128 },
    latency: { queue: "hook_notify", work: { batchSize: 10 } },
  },
  async setup() {
    const boss = await open({});
    await boss.createQueue("hook", { retryLimit: 3 });
    await boss.createQueue("hook_notify", { retryLimit: 3, notify: true });
  },
  async enqueue(client, i, wake) {
    const boss = await sender();
    await boss.send(wake ? "hook_notify" : "hook", body(i), { db: wrapped(client) });
  },
  async enqueueMany(client, from, to) {
    const boss = await sender();
    const jobs = bodies(from, to).map((data) => ({ data }));
    await boss.insert("hook", jobs, { db: wrapped(client) });
  },
  async runWorker({ queue, work }, handler, ready) {
    const useListenNotify = queue === "hook_notify";
    const boss = await open({ migrate: false, createSchema: false, useListenNotify });
    await ready();
    await boss.work(queue, work, async (jobs) => { await Promise.all(jobs.map((job) => handler(job.data))); });
  },
});
