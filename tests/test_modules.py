"""Every module has a test file of its name, or a test file imports it or says in its docstring that it covers it."""

from __future__ import annotations

import re
from pathlib import Path

SOURCE, TESTS = Path(__file__).parents[1] / "src" / "lakewarden", Path(__file__).parent
MODULES = [path.relative_to(SOURCE) for path in SOURCE.rglob("*.py") if not path.name.startswith("__")]
TEXTS = "\n".join(path.read_text() for path in TESTS.rglob("test_*.py"))


def is_named(module: Path, texts: str) -> bool:
    """Whether some tests import a module, or mention its path."""
    *package, name = ("lakewarden", *module.with_suffix("").parts)
    dotted = re.escape(".".join(package))
    imported = rf"{dotted}\.{name}\b|from {dotted} import (\([^)]*|[^\n(]*)\b{name}\b"
    return str(module) in texts or re.search(imported, texts) is not None


def test_every_module_has_tests() -> None:
    without = [path for path in MODULES if not (TESTS / path.with_name(f"test_{path.name}")).exists()]
    assert [str(path) for path in sorted(without) if not is_named(path, TEXTS)] == []


def test_a_module_without_tests_is_found() -> None:
    assert len(MODULES) > 250
    module = Path("features/shared/select.py")
    assert not is_named(module, "from lakewarden.features.shared.selects import x\nfeatures/shared/selected.py")
    assert is_named(module, "from lakewarden.features.shared import (\n    each,\n    select,\n)")
    assert is_named(module, "from lakewarden.features.shared.select import x")
    assert is_named(module, '"""Covers `features/shared/select.py`."""')
