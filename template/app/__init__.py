"""The application: HTTP in front, the outbox in the middle, the relay behind it.

Start reading at `wiring.py`, which puts the parts together; `docs/architecture.md` draws the flow.
"""
