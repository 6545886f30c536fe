"""What docs/operations.md tells an operator to type, typed."""

import re
import sqlite3
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import read


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
