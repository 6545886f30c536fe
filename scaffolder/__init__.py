"""Generates a Litestar application and keeps it upgradable.

`__version__` is the version of the tool and of the template it carries; it stands only here.
"""

__version__ = "0.1.2.dev0"
