"""The harness's own limit, sql-limit:split, which here also writes the attempt row.

What the relay does in the database and nothing else: narrow row claimed under token and lease,
settled by token, one row of the attempts' log for each message, in the same statement.
"""

# mypy: disable-error-code="import-not-found,import-untyped,misc,name-defined,attr-defined"
import os
import sys
from pathlib import Path
from typing import ClassVar

os.environ["SQL_DESIGN"] = "split"
sys.path.insert(0, str(Path(os.environ["BENCH_HARNESS"]) / "adapters"))

import asyncpg
import base
import sqllimit

ATTEMPTS = """CREATE TABLE attempt (
  message_id bigint, number int, type text NOT NULL, destination text NOT NULL,
  started_at timestamptz NOT NULL, duration_ms float8 NOT NULL, outcome text NOT NULL,
  status_code smallint, error text, response_head bytea, response_body bytea,
  PRIMARY KEY (message_id, number))"""

sqllimit.DONE = """WITH w AS (
  UPDATE delivery SET done_at = now(), leased_until = NULL
  WHERE id = ANY($1::bigint[]) AND token = $2 AND done_at IS NULL RETURNING id, attempts)
INSERT INTO attempt
  (message_id, number, type, destination, started_at, duration_ms, outcome, status_code)
SELECT id, attempts, 'order.created', 'webhook:01890a5d-ac96-774b-bcce-b302099a8057', now(), 1.0,
  'delivered', 204 FROM w"""


class WithAttempts(sqllimit.SqlLimit):
    """The same loop with another statement."""

    name = "sql-limit:attempts"
    latency: ClassVar[list[str]] = []
    reset_sql = sqllimit.SqlLimit.reset_sql + ", attempt"

    async def setup(self) -> None:
        """One table more."""
        await super().setup()
        connection = await asyncpg.connect(base.DSN)
        await connection.execute(ATTEMPTS)
        await connection.close()


if __name__ == "__main__":
    base.main(WithAttempts())
