"""Our relay beside its peers, on one server in one run: `python -m benchmarks.peers`.

Every system is a program (`adapters/`) that answers the same verbs in whatever language and
environment it needs; this package starts them in turns, holds the clock and compares. The verbs are
described in `adapters/base.py`, the systems are listed in `systems.py`, the rows that decide over
the exit code in `verdicts.py`.
"""
