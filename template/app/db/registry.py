"""All tables in one MetaData: what migrations are compared with.

A feature's tables are found by the module name `app/<feature>/tables.py`.
"""

from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules

from sqlalchemy import MetaData

import app
from app.db.base import metadata


def load_tables() -> MetaData:
    """Import every `app.<package>.tables` there is and return the MetaData they filled."""
    for package in iter_modules(app.__path__, "app."):
        if package.ispkg and find_spec(f"{package.name}.tables"):
            import_module(f"{package.name}.tables")
    return metadata
