"""The HTTP application: one route for each declared capability, and two for health checks.

    app = create_app(Warden.open("lakewarden.yaml"))

Any ASGI server can run it. Questions are GET with their fields in the query; operations are POST and return a plan
unless the body has `"apply": true`; answers are the documents that `--json` prints. Authentication and authorisation
are left to the server.
"""

from __future__ import annotations

from fastapi import FastAPI

import lakewarden
from lakewarden import registry
from lakewarden.doors.compat import compare_routes
from lakewarden.doors.rest import failures, health, query
from lakewarden.doors.rest.capabilities import add_capability
from lakewarden.warden import Warden

_DESCRIPTION = """Maintains Iceberg tables over their whole lifecycle.

Questions (GET) read and change nothing. Operations (POST) return a plan, which is stored and can be applied later by
its id at `/api/v1/operation/apply`; with `"apply": true` they are applied immediately and return a report. Every error
is a document `{"error": {"code", "message", "hint"}}`.

Snapshot ids are text, because many JSON readers round numbers above 2^53.

Rows are JSON: decimals, dates, times and UUIDs as text, binary values in hexadecimal, and numbers that JSON does not
support (NaN and the infinities) as text too."""


def create_app(warden: Warden) -> FastAPI:
    """The application for one installation."""
    app = FastAPI(
        title="Lakewarden",
        version=lakewarden.__version__,
        description=_DESCRIPTION,
        openapi_tags=[{"name": noun, "description": registry.describe(noun)} for noun in registry.nouns()]
        + [{"name": query.TAG, "description": "SQL over tables and lists."}]
        + [{"name": health.TAG, "description": "Health of the server."}],
        docs_url=None,  # FastAPI's pages run scripts from another host, next to routes that change tables
        redoc_url=None,
    )
    failures.install(app)
    health.install(app, warden)
    compare_routes.install(app, warden)
    query.install(app, warden)
    for declared in registry.declarations():
        add_capability(app, warden, declared)
    return app
