"""Imports point one way (design §3): doors → warden → features → lifecycle, with engine and state handed in."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "lakewarden"

MAY_IMPORT = {
    # part of the house: parts whose code it may use when it runs
    "errors": set[str](),
    "quantities": set[str](),
    "display": {"quantities"},
    "config": {"errors", "quantities"},
    "lifecycle": {"errors", "quantities", "display"},
    "engine": {"errors", "quantities", "config", "lifecycle"},
    "state": {"errors", "quantities", "lifecycle"},
    "features": {"errors", "quantities", "display", "config", "lifecycle", "engine"},
    "registry": {"errors", "lifecycle", "features"},
    "warden": {"errors", "quantities", "display", "config", "lifecycle", "engine", "state", "features", "registry"},
    "doors": {"errors", "quantities", "display", "config", "lifecycle", "features", "registry", "warden"},
}
ONLY_IN = {
    # library: where it may be imported
    "pyspark": ("engine",),
    "sqlalchemy": ("state", "features.sequence"),
    "alembic": ("state",),
    "click": ("doors.cli",),
    "rich": ("doors.cli",),
    "fastapi": ("doors.rest",),
    "starlette": ("doors.rest",),
    "yaml": ("config", "features.lake"),
}
PUBLIC = ("__init__", "__main__")


def imports(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """Each module that is imported, and whether only for the type checker."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            yield from ((name, True) for child in node.body for name, _ in imports(ast.Module([child], [])))
        elif isinstance(node, ast.Import):
            yield from ((alias.name, False) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            names = [f"lakewarden.{alias.name}" for alias in node.names] if base == "lakewarden" else [base]
            yield from ((name, False) for name in names)
        else:
            yield from imports(node)


def violations(module: str, code: str) -> list[str]:
    """What a module (`features.version.tag`) imports against the law."""
    part = module.split(".")[0]
    found = []
    for name, for_types in imports(ast.parse(code)):
        root, _, rest = name.partition(".")
        if root in ONLY_IN and not for_types and not module.startswith(ONLY_IN[root]):
            found.append(f"{module} imports {root}")
        if root == "lakewarden" and rest and not for_types and part not in PUBLIC:
            target = rest.split(".")[0]
            if target != part and target not in MAY_IMPORT[part]:
                found.append(f"{module} imports {target}")
        if rest.startswith("features.") and part == "features":
            found += _verb_of_another_noun(module, rest)
    return found


def _verb_of_another_noun(module: str, imported: str) -> list[str]:
    own, other = module.split(".")[1], imported.split(".")[1]
    verbs = {path.stem for path in (SOURCE / "features" / other).glob("*.py")} & set(_verbs(other))
    return [f"{module} imports the verb {imported}"] if own != other and imported.split(".")[-1] in verbs else []


def _verbs(noun: str) -> list[str]:
    text = (SOURCE / "features" / noun / "__init__.py").read_text()
    return [verb.replace("-", "_") for verb in ast.literal_eval(text.split("VERBS = ")[1])]


MODULES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_module_keeps_the_law(path: Path) -> None:
    module = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    assert violations(module, path.read_text()) == []


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("lifecycle.runner", "from lakewarden.engine.tables import Tables"),
        ("lifecycle.runner", "def f():\n    from lakewarden.features.version.tag import Tag"),
        ("engine.commit", "import lakewarden.state.leases"),
        ("features.version.tag", "from lakewarden.warden import Warden"),
        ("features.version.tag", "import sqlalchemy"),
        ("features.version.tag", "from pyspark.sql import functions"),
        ("features.version.tag", "from lakewarden.features.table.show import Show"),
        ("doors.cli.render", "from lakewarden.engine.spark import Spark"),
        ("doors.cli.render", "from lakewarden import engine"),
        ("doors.rest.app", "import click"),
        ("state.journal", "from lakewarden.engine import commit"),
        ("config", "from lakewarden.lifecycle.plan import Plan"),
    ],
)
def test_a_planted_violation_is_found(module: str, code: str) -> None:
    assert violations(module, code) != []


def test_types_may_be_named_where_code_may_not_be_used() -> None:
    code = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from lakewarden.engine.tables import Tables"
    assert violations("lifecycle.ground", code) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["version", "--help"],
        ["version", "tag", "--help"],
        ["demo", "--help"],
        ["lake", "key", "--help"],
        ["erasure", "certificate", "--help"],
    ],
)
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    heavy = ["pyiceberg", "pyspark", "fastapi", "sqlalchemy", "pyarrow", "pandas", "alembic", "yaml", "rich.console"]
    heavy += ["cryptography"]
    code = (
        "import sys\nfrom lakewarden.doors.cli.main import run\n"
        f"assert run({arguments!r}) == 0\n"
        f"print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_only_the_noun_that_was_asked_for_is_imported() -> None:
    code = (
        "import sys\nfrom lakewarden.doors.cli.main import run\nrun(['table', 'list', '--help'])\n"
        "print([m for m in sys.modules if m.startswith('lakewarden.features.version.')], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_data_path_never_reaches_into_the_jvm() -> None:
    """It must run over Spark Connect (design §4)."""
    reaching = {
        f"{path.name}: {node.attr}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in ("_jvm", "_jsc", "sparkContext", "_sc", "rdd")
    }
    assert reaching == set()
