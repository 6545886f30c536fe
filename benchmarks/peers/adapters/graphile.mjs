// graphile-worker: add_job in the caller's transaction, run() with its local queue and batched
// completion, which is ten times its plain mode. Finished jobs are deleted.
import { main, require, version, DSN, body, bodies } from "./node_base.mjs";
const { run, runMigrations, Logger } = require("graphile-worker");

const logger = new Logger(() => () => {});
const fast = {
  concurrentJobs: 24, maxPoolSize: 24, pollInterval: 2000,
  localQueue: { size: 500, refetchDelay: { durationMs: 10 } },
  completeJobBatchDelay: 0, failJobBatchDelay: 0,
};
const ADD = "SELECT graphile_worker.add_job('hook', $1::json)";
const ADD_MANY = `SELECT count(*) FROM graphile_worker.add_jobs((SELECT array_agg(
  ('hook', p::json, NULL, NULL, NULL, NULL, NULL, NULL)::graphile_worker.job_spec)
  FROM unnest($1::text[]) p))`;

await main({
  info: {
    version: version("graphile-worker"), count: 40000,
    reset_sql: "TRUNCATE graphile_worker._private_jobs",
    pending_sql: "SELECT EXISTS (SELECT 1 FROM graphile_worker._private_jobs)",
    left_sql: "SELECT count(*) FROM graphile_worker._private_jobs",
  },
  profiles: {
    drain: fast,
    http: { ...fast, concurrentJobs: 64, maxPoolSize: 20, connections: 64 },
    latency: { concurrentJobs: 4, maxPoolSize: 6 },
  },
  setup: () => runMigrations({ preset: { worker: { connectionString: DSN, logger } } }),
  enqueue: (client, i) => client.query({ name: "add", text: ADD, values: [JSON.stringify(body(i))] }),
  enqueueMany: (client, from, to) => client.query(ADD_MANY, [bodies(from, to).map((b) => JSON.stringify(b))]),
  async runWorker(settings, handler, ready) {
    const preset = { worker: { connectionString: DSN, logger, crontabFile: "/nonexistent", ...settings } };
    await ready();
    await run({ preset, taskList: { hook: handler }, parsedCronItems: [], noHandleSignals: true });
  },
});
