"""What docs/operations.md tells an operator to type, typed."""

import re
import sqlite3
import subprocess
import sys
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from app.observe.metrics import HttpMetrics
from app.relay.metrics import RelayMetrics
from app.webhooks.metrics import WebhookMetrics
from tests.cli.command import Project
from tests.docs.pages import read
from tests.support.receiver import receiver_in_thread


def test_the_backup_command_copies_a_database_that_is_in_use(tmp_path: Path) -> None:
    """The copy has what was committed, also while another connection writes."""
    found = re.search(r"^\$ (\.venv/bin/python -c .*VACUUM.*)$", read("docs/operations.md"), re.M)
    assert found is not None
    (tmp_path / "data").mkdir()
    live = sqlite3.connect(tmp_path / "data" / "app.db", isolation_level=None)
    live.execute("PRAGMA journal_mode = WAL")
    live.execute("CREATE TABLE orders (id INTEGER)")
    live.execute("INSERT INTO orders VALUES (1)")
    live.execute("BEGIN IMMEDIATE")
    live.execute("INSERT INTO orders VALUES (2)")
    command = found[1].replace(".venv/bin/python", sys.executable)
    subprocess.run(["bash", "-euc", command], cwd=tmp_path, check=True, timeout=60)
    live.close()
    copy = sqlite3.connect(tmp_path / "data" / "backup.db")
    assert copy.execute("SELECT id FROM orders").fetchall() == [(1,)]
    copy.close()


def test_after_a_lost_key_every_endpoint_gets_a_new_secret(tmp_path: Path) -> None:
    """The steps of the page: a new key is adopted, and requests are signed with new secrets."""
    page = read("docs/operations.md")
    assert "DELETE FROM key_sentinel" in page
    assert "endpoints rotate ID --overlap-seconds 0" in page
    variables = {
        "APP_ENV": "test", "APP_SECRET_KEY": "k" * 40, "APP_ALLOW_PRIVATE_TARGETS": "true",
    }  # fmt: skip
    project = Project(tmp_path, variables)
    project.ok("db", "upgrade")
    with receiver_in_thread() as receiver:
        added = project.json("endpoints", "add", receiver.url, "--types", "*")
        project.variables["APP_SECRET_KEY"] = "n" * 40
        assert project.run("check").returncode == 1
        with sqlite3.connect(tmp_path / "data" / "app.db") as database:
            database.execute("DELETE FROM key_sentinel")
        database.close()
        project.ok("check")
        rotated = project.json("endpoints", "rotate", added["id"], "--overlap-seconds", "0")
        receiver.receiver.secret = rotated["secret"]
        project.ok("endpoints", "test", added["id"])
    assert rotated["secret"] != added["secret"]


def _name(metric: Metric) -> str:
    return f"{metric.name}_total" if metric.type == "counter" else metric.name


def test_the_page_explains_every_metric_and_no_other() -> None:
    """Whoever sees a number on a dashboard finds what it means, and when to worry."""
    registry = CollectorRegistry()
    HttpMetrics(registry)
    RelayMetrics(registry)
    WebhookMetrics(registry)
    there = {_name(metric) for metric in registry.collect()}
    section = read("docs/operations.md").partition("## What to watch")[2].partition("\n## ")[0]
    explained = re.findall(r"^\| `([a-z_]+)(?:\{[a-z,]+\})?` \|", section, re.MULTILINE)
    assert set(explained) == there
