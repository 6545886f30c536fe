// Verifies one request with the official JavaScript libraries; prints the names of those that did.
// stdin: {"secret", "headers", "body"}; PACKAGES is the folder node_modules.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const require = createRequire(import.meta.url);
const { secret, headers, body } = JSON.parse(readFileSync(0, "utf8"));
for (const name of ["standardwebhooks", "svix"]) {
  const { Webhook } = require(process.env.PACKAGES + "/" + name);
  new Webhook(secret).verify(body, headers);
  console.log(name);
}
