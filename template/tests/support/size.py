"""`TEST_SIZE=nightly` (make test-nightly): more rows, longer histories, timings."""

import os

import pytest

NIGHTLY = os.environ.get("TEST_SIZE") == "nightly"
nightly = pytest.mark.skipif(not NIGHTLY, reason="long: make test-nightly runs it")
