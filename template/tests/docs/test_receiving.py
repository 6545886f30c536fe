"""What docs/receiving.md tells receivers to do, done: both receivers, against our signatures."""

import asyncio
import json
import os
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import httpx
import pytest

from app.ids import uuid7
from app.webhooks.schemes import Signature
from app.webhooks.secrets import decode_secret, for_receiver, new_key, new_secret
from app.webhooks.signing import HmacSigner, signature_headers, signer_of
from tests.docs.pages import needed, read

BODY = b'{"type":"order.paid","timestamp":"2026-01-31T12:00:00Z","data":{"total":"42.00"}}'

Receive = Callable[[sqlite3.Connection, str, dict[str, str], bytes], int]


def _snippet(words: str) -> str:
    found = re.findall(r"```python\n(.*?)```", read("docs/receiving.md"), re.DOTALL)
    (code,) = (each for each in found if words in each)
    return str(code)


def test_the_snippet_for_public_keys_verifies_what_we_sign() -> None:
    """And nothing else: not another body, not another key, not another kind."""
    names: dict[str, Any] = {}
    exec(_snippet("Ed25519PublicKey"), names)
    key, other = new_key(Signature.V1A), new_key(Signature.V1A)
    signers = [HmacSigner(other), signer_of(Signature.V1A, key)]
    headers = asyncio.run(signature_headers(uuid7(), BODY, signers, int(time.time())))
    public = for_receiver(Signature.V1A, key)
    assert names["genuine"](public, headers, BODY) is True
    assert names["genuine"](public, headers, BODY + b" ") is False
    assert names["genuine"](for_receiver(Signature.V1A, other), headers, BODY) is False
    headers["webhook-signature"] = "v1a,! v1a,AAAA"
    assert names["genuine"](public, headers, BODY) is False


def _script() -> Any:
    spec = spec_from_file_location("receiver", needed("docs/receiver.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=["receiver.py", "snippet"])
def receiver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SimpleNamespace]:
    """Either receiver with its database, its work replaced by one that remembers or fails."""
    script = _script()
    done: list[dict[str, Any]] = []
    fails: list[Exception] = []

    def act(db: sqlite3.Connection, event: dict[str, Any]) -> None:
        done.append(event)
        if fails:
            raise fails.pop()

    script.act = act
    receive: Receive = lambda *given: script.receive(*given, time.time())  # noqa: E731
    if request.param == "snippet":
        code = _snippet("def receive(")
        names: dict[str, Any] = {"act": act}
        exec(code, names)
        receive = names["receive"]
    db = script.open_database(tmp_path / "data" / "seen.db")
    yield SimpleNamespace(receive=receive, db=db, done=done, fails=fails, secret=new_secret())
    db.close()


def _signed(
    secret: str, body: bytes = BODY, age: float = 0, message: UUID | None = None
) -> dict[str, str]:
    timestamp = int(time.time() - age)
    return _headers(message or uuid7(), body, [secret], timestamp)


def _headers(message: UUID, body: bytes, secrets: list[str], timestamp: int) -> dict[str, str]:
    signers = [HmacSigner(decode_secret(secret)) for secret in secrets]
    return asyncio.run(signature_headers(message, body, signers, timestamp))


def test_a_receiver_acts_once_on_a_repeated_message(receiver: SimpleNamespace) -> None:
    """The second arrival is answered 2xx and changes nothing."""
    message = uuid7()
    for _ in range(2):
        headers = _signed(receiver.secret, message=message)
        assert receiver.receive(receiver.db, receiver.secret, headers, BODY) == 204
    assert receiver.done == [json.loads(BODY)]


def test_a_receiver_refuses_what_is_not_signed_with_its_secret(receiver: SimpleNamespace) -> None:
    """A changed body, another secret, an old request: 401, and no work is done."""
    headers = _signed(receiver.secret)
    receive, db = receiver.receive, receiver.db
    assert receive(db, receiver.secret, headers, BODY.replace(b"42.00", b"0.01")) == 401
    assert receive(db, new_secret(), headers, BODY) == 401
    assert receive(db, receiver.secret, _signed(receiver.secret, age=3600), BODY) == 401
    assert receiver.done == []


def test_a_receiver_that_fails_acts_on_the_next_attempt(receiver: SimpleNamespace) -> None:
    """Id and work are one transaction: a failed work leaves no id behind."""
    headers = _signed(receiver.secret)
    receiver.fails.append(RuntimeError("disk full"))
    with pytest.raises(RuntimeError):
        receiver.receive(receiver.db, receiver.secret, headers, BODY)
    assert receiver.receive(receiver.db, receiver.secret, headers, BODY) == 204
    assert len(receiver.done) == 2


def test_a_receiver_accepts_either_signature_during_a_rotation(receiver: SimpleNamespace) -> None:
    """The request carries one signature for each secret; knowing one is enough."""
    secrets = [new_secret(), receiver.secret]
    headers = _headers(uuid7(), BODY, secrets, int(time.time()))
    assert receiver.receive(receiver.db, receiver.secret, headers, BODY) == 204


def test_the_receiver_script_answers_over_http(tmp_path: Path) -> None:
    """Started as the page says, it takes a signed POST and refuses an unsigned one."""
    secret = new_secret()
    process = subprocess.Popen(
        [sys.executable, str(needed("docs/receiver.py")), "0"],
        cwd=tmp_path, env=os.environ | {"WEBHOOK_SECRET": secret},
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        assert httpx.post(url, content=BODY, headers=_signed(secret)).status_code == 204
        assert "acting on order.paid" in process.stdout.readline()
        assert httpx.post(url, content=BODY).status_code == 401
        assert httpx.post(url, content=b"{", headers=_signed(secret, b"{")).status_code == 400
    finally:
        process.terminate()
        process.communicate(timeout=10)
