"""The feature `admin`: pages for people, below `/admin`. Found by `features.py`.

Delete this package and the pages are gone; API and command line do all that the pages do.
"""

from litestar import Router

from app.admin import parked, sign_in
from app.admin.gate import FORM_BYTES, own_form, signed_in
from app.admin.html import error_page
from app.api.auth import OWN_GUARD
from app.features import Feature

FEATURE = Feature(
    name="admin",
    route_handlers=(
        Router(
            "/admin",
            route_handlers=[*sign_in.ROUTES, *parked.ROUTES],
            guards=[signed_in],
            before_request=own_form,
            opt=OWN_GUARD,
            request_max_body_size=FORM_BYTES,
            include_in_schema=False,
        ),
    ),
    error_page=error_page,
)
