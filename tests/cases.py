"""Cases of parametrised tests, of which `make test` runs the ones where most is at stake."""

from __future__ import annotations

from typing import Any

import pytest


def in_soak(*cases: Any) -> list[Any]:
    """Cases that run in `make soak` only; a tuple has one value for each parameter."""
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.soak) for case in cases]
