"""The HTTP application: one route for each declared capability, and two by which a supervisor sees how it is.

    app = create_app(Warden.open("lakewarden.yaml"))

Any ASGI server can run it. Questions are GET with their fields in the query; operations are POST and answer
with a plan unless the body says `"apply": true`; answers are the documents that `--json` prints. Who may call
is not decided here.
"""

from __future__ import annotations

from fastapi import FastAPI

import lakewarden
from lakewarden import registry
from lakewarden.doors.rest import failures, health
from lakewarden.doors.rest.capabilities import add_capability
from lakewarden.warden import Warden

_DESCRIPTION = """Keeps lakehouse tables in order for their whole life.

Questions (GET) read and change nothing. Operations (POST) answer with a plan, which is kept and can be applied
later by its id at `/api/v1/operation/apply`; with `"apply": true` they are done at once and answer with a
report. Every error is a document `{"error": {"code", "message", "hint"}}`.

Ids of snapshots are text, since many JSON readers round numbers above 2^53.

Rows come as JSON: decimals, dates, times and UUIDs as text, binary values in hexadecimal, and numbers that
JSON does not know (NaN and the infinities) as text too."""


def create_app(warden: Warden) -> FastAPI:
    """The application that serves one installation."""
    app = FastAPI(
        title="Lakewarden",
        version=lakewarden.__version__,
        description=_DESCRIPTION,
        openapi_tags=[{"name": noun, "description": registry.describe(noun)} for noun in registry.nouns()]
        + [{"name": health.TAG, "description": "How the server itself is."}],
        docs_url=None,  # FastAPI's pages run scripts from another host, beside routes that change tables
        redoc_url=None,
    )
    failures.install(app)
    health.install(app, warden)
    for declared in registry.declarations():
        add_capability(app, warden, declared)
    return app
