"""The receiver that other tests lean on does what it says."""

import asyncio

import httpx
import pytest

from tests.support.receiver import Answer, Receiver, receiver_in_thread


async def test_answers_come_in_turn_and_the_last_one_stays():
    """A path answers its list, then repeats the last answer."""
    async with Receiver() as receiver, httpx.AsyncClient(trust_env=False) as http:
        url = receiver.on("/hook", Answer(503, headers=(("Retry-After", "7"),)), Answer(204))
        statuses = []
        for _ in range(3):
            statuses.append((await http.post(url, content=b"{}")).status_code)
        assert statuses == [503, 204, 204]
        assert [r.body for r in await receiver.wait_for(3)] == [b"{}"] * 3
        assert receiver.connections == 1


async def test_waiting_for_too_many_requests_fails_with_the_count():
    """A missing request is an assertion error, not a hang."""
    async with Receiver() as receiver:
        with pytest.raises(AssertionError, match="0 of 1"):
            await receiver.wait_for(1, timeout=0.05)


async def test_an_unsigned_request_is_refused_when_a_secret_is_set():
    """With a secret the receiver verifies before it answers."""
    secret = "whsec_" + "A" * 32
    async with Receiver(secret=secret) as receiver, httpx.AsyncClient(trust_env=False) as http:
        assert (await http.post(receiver.url, content=b"{}")).status_code == 401


def test_a_receiver_in_a_thread_serves_a_blocking_test():
    """The same receiver for tests without a loop."""
    with receiver_in_thread() as receiver:

        async def post() -> None:
            async with httpx.AsyncClient(trust_env=False) as http:
                assert (await http.post(receiver.url, content=b"1")).status_code == 200

        asyncio.run(post())
        assert receiver.wait_for(1)[0].body == b"1"
