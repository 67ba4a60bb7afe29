"""How many examples Hypothesis tries: in `make test` a quarter of those in `make soak`."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

_SOAK, _TEST = 200, 50


def load(soak: bool) -> None:
    """Choose what tests with no settings of their own try."""
    settings.register_profile("soak", max_examples=_SOAK, deadline=None)
    settings.register_profile("test", max_examples=_TEST, deadline=None)
    settings.load_profile("soak" if soak else "test")


def examples(many: int, **others: Any) -> settings:
    """Settings for a test that tries so many in `make soak`, and a quarter of them in `make test`."""
    return settings(max_examples=many * settings().max_examples // _SOAK, **others)
