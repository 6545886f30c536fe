"""The table that belongs to the installation as a whole, not to one part of it."""

from sqlalchemy import Column, SmallInteger, Table

from app.db.base import metadata
from app.db.dialect import Bytes

# One row: start-up decrypts it, so that a wrong APP_SECRET_KEY refuses to start instead of failing
# every message.
key_sentinel = Table(
    "key_sentinel",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("ciphertext", Bytes, nullable=False),
)
