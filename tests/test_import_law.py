"""Imports point one way (design §3): doors → warden → features → lifecycle, with engine and state handed in."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from lakewarden import registry

SOURCE = Path(__file__).parents[1] / "src" / "lakewarden"

MAY_IMPORT = {
    # part of the house: parts whose code it may use when it runs
    "errors": set[str](),
    "quantities": set[str](),
    "made_once": set[str](),
    "erased_values": set[str](),
    "admin": {"errors"},
    "display": {"quantities"},
    "config": {"errors", "quantities"},
    "records": {"errors", "erased_values"},
    "lifecycle": {"errors", "quantities", "display", "erased_values"},
    "engine": {"errors", "erased_values", "quantities", "config", "records", "lifecycle"},
    "state": {"errors", "erased_values", "quantities", "records", "lifecycle"},
    "features": {"errors", "erased_values", "quantities", "display", "config", "records", "lifecycle", "engine"},
    "registry": {"errors", "lifecycle", "features"},
    "warden": {
        "errors",
        "quantities",
        "display",
        "config",
        "records",
        "lifecycle",
        "engine",
        "state",
        "features",
        "registry",
        "made_once",
    },
    "sql": {"errors", "engine", "features", "warden"},
    "doors": {"errors", "quantities", "display", "config", "lifecycle", "features", "registry", "warden"},
}
MAY_NAME = {"lifecycle": {"config", "engine", "state"}, "doors": {"engine"}}
"""Parts whose types a part may name as well, though it may not use their code."""
ONLY_IN = {
    # library: where it may be imported
    "pyspark": ("engine",),
    "sqlalchemy": ("state", "features.sequence"),
    "pymysql": ("features.sequence",),
    "alembic": ("state",),
    "click": ("doors.cli",),
    "rich": ("doors.cli",),
    "fastapi": ("doors.rest", "doors.compat.compare_routes"),
    "starlette": ("doors.rest",),
    "yaml": ("config", "features.lake"),
    "sqlglot": ("engine.sql",),
    "duckdb": ("engine.sql",),
}
ENGINE = (
    "kernel",
    "base",
    "catalog",
    "storage",
    "files",
    "spark",
    "rows",
    "commit",
    "rewrite",
    "proof",
    "history",
    "comparison",
    "sql",
)
ERASURE = ("requests", "hidden", "proofs", "purging", "certificates", "recurrence")
ROOMS = {"engine": ENGINE, "features.erasure": ERASURE}
"""Packages in their order: each imports only those before it, for types too, and nothing that stands on top of them."""
NOUNS = (
    "shared",
    "orphan",
    "viewset",
    "erasure",
    "compaction",
    "version",
    "retention",
    "policy",
    "table",
    "lake",
    "query",
    "backfill",
    "migration",
    "sequence",
)
"""Nouns of features/, after what several of them share: each uses only those before it, for types too."""
ALONE = ("compare", "operation")
"""Nouns that use no other noun and that no other noun uses."""
VERBS = {registry.module_name(noun, verb) for noun in registry.nouns() for verb in registry.verbs(noun)}
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
            full = (f"{base}.{alias.name}" for alias in node.names)
            yield from dict.fromkeys((name if _is_ours(name) else base, False) for name in full)
        else:
            yield from imports(node)


def _is_ours(name: str) -> bool:
    """Whether this is a module or a package of Lakewarden, and not a name within one."""
    return name in OURS


def violations(module: str, code: str) -> list[str]:
    """What a module (`features.version.tag`) imports against the law."""
    return against_the_law(module, imports(ast.parse(code)))


def against_the_law(module: str, imported: Iterable[tuple[str, bool]]) -> list[str]:
    part = module.split(".")[0]
    found = []
    for name, for_types in imported:
        root, _, rest = name.partition(".")
        if root in ONLY_IN and not for_types and not module.startswith(ONLY_IN[root]):
            found.append(f"{module} imports {root}")
        if root == "lakewarden" and rest and part not in PUBLIC:
            target = rest.split(".")[0]
            allowed = MAY_IMPORT[part] | (MAY_NAME.get(part, set()) if for_types else set())
            if target != part and target not in allowed:
                found.append(f"{module} imports {target}")
        found += [told for house in ROOMS for told in _later_room(house, module, rest)]
        if rest.startswith("features.") and part == "features":
            found += _later_noun(module, rest) + _verb_of_another_noun(module, rest)
    return found


def _later_room(house: str, module: str, imported: str) -> list[str]:
    if not (module.startswith(f"{house}.") and imported.startswith(f"{house}.")):
        return []
    own, other = (name.removeprefix(f"{house}.").split(".")[0] for name in (module, imported))
    on_top = len(ROOMS[house])
    order = {room: place for place, room in enumerate(ROOMS[house])}
    return [f"{module} imports {imported}"] if order.get(other, on_top) > order.get(own, on_top) else []


def _later_noun(module: str, imported: str) -> list[str]:
    own, other = module.split(".")[1], imported.split(".")[1]
    if other in (own, NOUNS[0]):
        return []
    alone = own in ALONE or other in ALONE
    return [f"{module} imports {imported}"] if alone or NOUNS.index(other) > NOUNS.index(own) else []


def _verb_of_another_noun(module: str, imported: str) -> list[str]:
    own, other = module.split(".")[1], imported.split(".")[1]
    is_verb = own != other and f"lakewarden.{imported}" in VERBS
    return [f"{module} imports the verb {imported}"] if is_verb else []


def _module(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


def cycle(graph: Mapping[str, set[str]]) -> list[str]:
    """Some modules that import each other in a circle, if there are any."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _ours(imported: Iterable[tuple[str, bool]]) -> set[str]:
    """Those of some imports that are modules of Lakewarden."""
    return {name.removeprefix("lakewarden.") for name, _ in imported if name.startswith("lakewarden.")}


MODULES = sorted(SOURCE.rglob("*.py"))
OURS = {f"lakewarden.{_module(path)}" for path in MODULES}


@cache
def _trees() -> dict[str, ast.Module]:
    return {_module(path): ast.parse(path.read_text()) for path in MODULES}


@cache
def _imports() -> dict[str, list[tuple[str, bool]]]:
    return {module: list(imports(tree)) for module, tree in _trees().items()}


def _graph() -> dict[str, set[str]]:
    return {module: _ours(imported) for module, imported in _imports().items()}


def test_every_module_keeps_the_law() -> None:
    assert [told for module, imported in _imports().items() for told in against_the_law(module, imported)] == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Neither when they run, nor for types, nor within functions."""
    assert cycle(_graph()) == []


@pytest.mark.parametrize("code", ["{}", "if TYPE_CHECKING:\n    {}", "def f():\n    {}"])
def test_a_planted_circle_is_found(code: str) -> None:
    planted = _ours(imports(ast.parse(code.format("from lakewarden.warden import Warden"))))
    assert {"errors", "warden"} <= set(cycle({**_graph(), "errors": planted}))


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("lifecycle.runner", "from lakewarden.engine.catalog.tables import Tables"),
        ("lifecycle.runner", "def f():\n    from lakewarden.features.version.tag import Tag"),
        ("lifecycle.runner", "from lakewarden.records.erasure import Tombstones"),
        ("lifecycle.ground", "if TYPE_CHECKING:\n    from lakewarden.records.erasure import Tombstones"),
        ("engine.rows.read", "if TYPE_CHECKING:\n    from lakewarden.features.erasure.requests import spelling"),
        ("records.erasure", "from lakewarden.lifecycle.plan import Plan"),
        ("engine.commit.refs", "import lakewarden.state.leases"),
        ("engine.files.bounds", "from lakewarden.engine.rows.keys import widest"),
        ("features.erasure.requests.due", "from lakewarden.features.erasure.proofs import recorded"),
        ("features.erasure.purging.planning", "from lakewarden.features.erasure.purge import Purge"),
        ("engine.rows.read", "if TYPE_CHECKING:\n    from lakewarden.engine.commit.delete_files import Mask"),
        ("features.version.tag", "from lakewarden.warden import Warden"),
        ("features.version.tag", "import sqlalchemy"),
        ("features.version.tag", "from pyspark.sql import functions"),
        ("features.table.health", "from lakewarden.features.version.show import Show"),
        ("features.table.health", "from lakewarden.features.version import show"),
        ("features.lake.key", "from lakewarden.features.erasure.check_certificate import CheckCertificate"),
        ("features.version.tag", "from lakewarden.features.policy.upkeep import upkeep"),
        ("features.orphan.age", "if TYPE_CHECKING:\n    from lakewarden.features.erasure import held"),
        ("features.shared.each", "from lakewarden.features.orphan.age import Aged"),
        ("features.policy.run", "from lakewarden.features.operation.entry import entry"),
        ("features.operation.resume", "from lakewarden.features.orphan.age import Aged"),
        ("doors.cli.render", "from lakewarden.engine.spark.session import Spark"),
        ("doors.cli.render", "from lakewarden import engine"),
        ("doors.rest.app", "import click"),
        ("state.journal", "from lakewarden.engine import commit"),
        ("config", "from lakewarden.lifecycle.plan import Plan"),
    ],
)
def test_a_planted_violation_is_found(module: str, code: str) -> None:
    assert violations(module, code) != []


def test_types_may_be_named_where_code_may_not_be_used() -> None:
    code = (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from lakewarden.engine.catalog.tables import Tables"
    )
    assert violations("lifecycle.ground", code) == []


def test_help_loads_nothing_heavy() -> None:
    """All in one process: what one of them loads is there for the next."""
    heavy = [
        "pyiceberg",
        "pyspark",
        "fastapi",
        "sqlalchemy",
        "pyarrow",
        "pandas",
        "alembic",
        "yaml",
        "rich.console",
        "pymysql",
    ]
    heavy += ["cryptography"]
    asked = [
        "",
        "version",
        "version tag",
        "demo",
        "lake key",
        "erasure certificate",
        "sequence maintain",
        "sequence archive",
    ]
    code = (
        f"import sys\nfrom lakewarden.doors.cli.main import run\nfor words in {asked!r}:\n"
        "    assert run([*words.split(), '--help']) == 0\n"
        f"    print(words, [name for name in {heavy!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == [f"{words} []" for words in asked]


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
        f"{module}: {node.attr}"
        for module, tree in _trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("_jvm", "_jsc", "sparkContext", "_sc", "rdd")
    }
    assert reaching == set()
