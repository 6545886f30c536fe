"""What we send, verified by the libraries that receivers use, in Python and in JavaScript.

The JavaScript ones are found in the folder that TEST_NODE_MODULES names: `make test-js` installs
them and runs this. None of these libraries verifies v1a; ours does, and a vector proves it.
"""

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import standardwebhooks
import svix.webhooks

from app.outbox.message import Delivered
from app.webhooks.endpoints import rotate_secret
from app.webhooks.verify import VerificationError, Verifier
from tests.support.received import Received
from tests.webhooks.factories import CIPHER, claim_for, endpoint_at

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

BODY = '{"type":"order.paid","timestamp":"2026-01-31T12:00:00Z","data":{"name":"Zoë ☃"}}'.encode()
SCRIPT = Path(__file__).parent / "verify.mjs"


async def arrived(database, settings, deliverer, receiver) -> tuple[Received, list[str]]:
    """A request as it came in while a secret is being replaced, and both secrets."""
    made = await endpoint_at(database, settings, receiver.url_for("/"))
    async with database.transaction() as session:
        rotated = await rotate_secret(session, CIPHER, made.id, 3600)
    assert isinstance(await deliverer.deliver(claim_for(made.id, body=BODY)), Delivered)
    (got,) = receiver.requests
    return got, [made.secret, rotated.secret]


class Ours:
    """Our verification with the interface of the others."""

    def __init__(self, secret: str) -> None:
        self._verifier = Verifier([secret])

    def verify(self, body: bytes, headers: dict[str, str]) -> object:
        """The body, parsed."""
        self._verifier.verify(headers, body)
        return json.loads(body)


PYTHON = [
    (standardwebhooks.Webhook, standardwebhooks.WebhookVerificationError),
    (svix.webhooks.Webhook, svix.webhooks.WebhookVerificationError),
    (Ours, VerificationError),
]


@pytest.mark.parametrize(("library", "error"), PYTHON, ids=["standardwebhooks", "svix", "ours"])
async def test_a_request_is_verified_by_the_libraries_of_python(
    database, settings, deliverer, receiver, library, error
):
    """Under either secret of a rotation; a changed body is refused."""
    got, secrets = await arrived(database, settings, deliverer, receiver)
    for secret in secrets:
        assert library(secret).verify(got.body, got.headers)["data"] == {"name": "Zoë ☃"}
        with pytest.raises(error):
            library(secret).verify(got.body.replace(b"paid", b"made"), got.headers)


async def test_a_request_is_verified_by_the_libraries_of_javascript(
    database, settings, deliverer, receiver
):
    """`standardwebhooks` and `svix` from npm, run by node."""
    packages, node = os.environ.get("TEST_NODE_MODULES"), shutil.which("node")
    if node is None or not packages:
        pytest.skip("needs node, and TEST_NODE_MODULES: run make test-js")
    got, secrets = await arrived(database, settings, deliverer, receiver)
    for secret in secrets:
        good = {"secret": secret, "headers": got.headers, "body": got.body.decode()}
        done = await asyncio.to_thread(run, node, packages, good)
        assert (done.stdout.split(), done.returncode) == (["standardwebhooks", "svix"], 0), done
        changed = good | {"body": good["body"].replace("paid", "made")}
        done = await asyncio.to_thread(run, node, packages, changed)
        assert done.returncode != 0
        assert "signature" in done.stderr


def run(node: str, packages: str, request: dict) -> subprocess.CompletedProcess[str]:
    """One run of the script."""
    return subprocess.run(
        [node, str(SCRIPT)], input=json.dumps(request), capture_output=True, text=True,
        env={"PACKAGES": packages, "PATH": os.environ["PATH"]}, check=False, timeout=60,
    )  # fmt: skip
