"""FastAPI's test client, which answers with what a client would see also where the server has a defect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi.testclient import TestClient

from lakewarden import Warden
from lakewarden.doors.rest.app import create_app

if TYPE_CHECKING:
    import httpx2 as httpx

API = "/api/v1"


class Client:
    """Calls capabilities by their noun and verb."""

    def __init__(self, warden: Warden) -> None:
        self.app = create_app(warden)
        self.http = TestClient(self.app, raise_server_exceptions=False)

    def get(self, noun: str, verb: str, **fields: Any) -> httpx.Response:
        response: httpx.Response = self.http.get(f"{API}/{noun}/{verb}", params=fields)
        return response

    def post(self, noun: str, verb: str, **fields: object) -> httpx.Response:
        response: httpx.Response = self.http.post(f"{API}/{noun}/{verb}", json=fields)
        return response


def error_of(response: httpx.Response) -> dict[str, object]:
    """The error of an answer that holds nothing else."""
    document = response.json()
    assert list(document) == ["error"]
    error: dict[str, object] = document["error"]
    assert {"code", "message", "hint"} <= set(error)
    return error
