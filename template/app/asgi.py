"""Entry point of an ASGI server: `uvicorn --factory app.asgi:create`.

A factory, because importing a module must not read the environment or open anything.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from litestar import Litestar


def create() -> "Litestar":
    """The application with the settings of the environment and `.env`."""
    from app.config import load_settings
    from app.wiring import create_app

    return create_app(load_settings())
