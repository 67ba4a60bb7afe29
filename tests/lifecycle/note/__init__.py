"""A noun for tests: lines in plain files, which are subjects of operations as good as tables."""

from __future__ import annotations

import sys

from lakewarden import features

VERBS = ("append",)


def install() -> None:
    """Make `note append` known at every door of this process, as a folder in `features` would."""
    from tests.lifecycle.note import append

    if "note" not in features.NOUNS:
        vars(features)["NOUNS"] = (*features.NOUNS, "note")
    sys.modules["lakewarden.features.note"] = sys.modules[__name__]
    sys.modules["lakewarden.features.note.append"] = append
