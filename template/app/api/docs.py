"""`/docs`: the API's documentation, to read and to try. Works without internet.

The user interface is Swagger UI from the package `openapi-ui-bundles`, served from this process; a
content security policy keeps the page from loading anything from elsewhere. The document it shows
is `/schema/openapi.json` (see `api/openapi.py`).
"""

from importlib.util import find_spec
from pathlib import Path

from litestar import MediaType, Response, get
from litestar.params import FromPath

from app.api.auth import PUBLIC
from app.errors import NotFound

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"
)
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>API documentation</title>
<link rel="icon" type="image/png" href="/docs/favicon-32x32.png">
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<div id="page"></div>
<noscript>The API document is <a href="/schema/openapi.json">/schema/openapi.json</a>.</noscript>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
"""
START = """SwaggerUIBundle({
  url: "/schema/openapi.json", dom_id: "#page", deepLinking: true, validatorUrl: null,
});
"""
ASSETS = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon-32x32.png": "image/png",
}


def _folder() -> Path:
    # Found without importing the package: it would be part of every start.
    spec = find_spec("openapi_ui_bundles")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "swagger_ui" / "vendor"


@get("/docs", opt=PUBLIC, include_in_schema=False, media_type=MediaType.HTML)
async def page() -> Response[str]:
    """The page."""
    return Response(PAGE, media_type=MediaType.HTML, headers={"Content-Security-Policy": POLICY})


@get("/docs/{name:str}", opt=PUBLIC, include_in_schema=False, sync_to_thread=True)
def asset(name: FromPath[str]) -> Response[bytes]:
    """One of the files that the page loads; no other file can be named."""
    if name == "start.js":
        return Response(START.encode(), media_type="text/javascript")
    if name not in ASSETS:
        raise NotFound(f"the documentation has no file {name!r}")
    return Response(
        (_folder() / name).read_bytes(),
        media_type=ASSETS[name],
        headers={"Cache-Control": "public, max-age=3600"},
    )


ROUTES = (page, asset)
