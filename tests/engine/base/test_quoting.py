"""Identifiers and literals for Spark SQL: what comes back is what went in, and nobody else pastes SQL together."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import lakewarden
from lakewarden.config import Environment, Settings
from lakewarden.engine.base.quoting import identifier, literal
from lakewarden.engine.spark.session import Spark
from lakewarden.errors import BadValue

SOURCES = Path(lakewarden.__file__).parent

texts = st.text(st.characters(exclude_categories=["Cs"]))
names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1)


def unquoted(text: str) -> str:
    """What Spark's lexer makes of a quoted text; it must have taken it for one token."""
    token = re.fullmatch(r"'((?:[^'\\]|\\.)*)'", text, re.DOTALL)
    assert token, text
    escape = re.compile(r"\\(?:u([0-9A-F]{4})|U([0-9A-F]{8})|(.))", re.DOTALL)
    return escape.sub(lambda m: m[3] or chr(int(m[1] or m[2], 16)), token[1])


@given(texts)
def test_text_is_one_token_and_is_read_back(text: str) -> None:
    assert unquoted(literal(text)) == text


@given(texts)
@example("${env:HOME}")
@example("$" * 3 + "{x}")
def test_nothing_in_a_literal_is_a_variable_or_ends_a_line(text: str) -> None:
    quoted = literal(text)
    assert "${" not in quoted and quoted.isprintable()


@given(st.lists(names, min_size=1, max_size=4))
def test_names_are_one_token_each_and_are_read_back(parts: list[str]) -> None:
    quoted = identifier(*parts)
    tokens = re.findall(r"`(?:[^`]|``)+`", quoted)
    assert ".".join(tokens) == quoted
    assert [token[1:-1].replace("``", "`") for token in tokens] == parts
    assert identifier(parts) == identifier(parts[0], parts[1:]) == quoted


@pytest.mark.parametrize("parts", [(), ("",), ("a", ""), ((),), ("a\x00b",), ("\ud800",), ("a", ("b", ""))])
def test_what_cannot_name_anything(parts: tuple[Any, ...]) -> None:
    with pytest.raises(BadValue, match="an SQL name cannot"):
        identifier(*parts)


@pytest.mark.parametrize(
    ("value", "quoted"),
    [
        (None, "NULL"),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (2**31 - 1, "2147483647"),
        (2**31, "2147483648L"),
        (-(2**31), "-2147483648"),
        (-(2**31) - 1, "-2147483649L"),
        (2**63 - 1, "9223372036854775807L"),
        (-(2**63), "-9223372036854775808L"),
        (1.5, "1.5D"),
        (1e22, "1e+22D"),
        ("it's", "'it\\'s'"),
        ("a\\b", "'a\\\\b'"),
        ("a\nb", "'a\\u000Ab'"),
        ("\U0001f9ca", "'\U0001f9ca'"),
        ("\U000e0001", "'\\U000E0001'"),
    ],
)
def test_literals(value: str | float | bool | None, quoted: str) -> None:
    assert literal(value) == quoted


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), float("-inf"), 2**63, -(2**63) - 1, "\ud800", "a\udfffb"]
)
def test_what_has_no_literal(value: str | float) -> None:
    with pytest.raises(BadValue, match="cannot be an SQL literal"):
        literal(value)


@pytest.fixture(scope="module")
def spark() -> Spark:
    """A session as Lakewarden starts it."""
    lake = {"catalog": {"type": "sql", "uri": "sqlite:////nowhere/catalog.db"}, "warehouse": "file:///nowhere"}
    settings = Settings.model_validate({"lakes": {"main": lake}, "spark": {"master": "local[2]", "memory": "2g"}})
    return Spark(settings, Environment.read())


AWKWARD = [
    *(
        "",
        " ",
        "'",
        '"',
        "`",
        "\\",
        "\\'",
        "'; DROP TABLE x; --",
        "a\\nb",
        "\\u0041",
        "\\U00000041",
        "\\101",
        "\\%",
        "\\_",
    ),
    *(
        "\x00",
        "a\x00b",
        "\n",
        "\r\n",
        "\t",
        "\x1a",
        "\x7f",
        "\x85",
        "\u2028",
        "\ufeff",
        "\uffff",
        "\ufffd",
        "\U0010ffff",
    ),
    *("é", "e\u0301", "雪", "\U0001f9ca", "\U0001f468\u200d\U0001f469", "\u202eabc", "ＡＢＣ"),
    *("${x}", "${spark.app.name}", "${env:HOME}", "${system:user.home}", "$", "$$", "${", "{x}", "#{x}"),
    *(":name", "?", "a = :name AND b = ?", "/* c */", "/*", "-- c", "%s", "%(x)s", "x'41'", "r'\\n'", "'a' 'b'"),
    "long " * 20_000,
]


@pytest.mark.spark
def test_spark_reads_back_every_text(spark: Spark) -> None:
    every = [*AWKWARD, *(chr(code) for code in range(1, 0x250)), *_drawn(texts, 200)]
    for start in range(0, len(every), 100):
        some = every[start : start + 100]
        columns = ", ".join(f"{literal(text)} AS c{i}" for i, text in enumerate(some))
        row = spark.sql(f"SELECT {columns}").collect()[0]
        assert list(row) == some


@pytest.mark.spark
def test_spark_reads_back_texts_beside_parameters(spark: Spark) -> None:
    for text in AWKWARD:
        row = spark.sql(f"SELECT {literal(text)} AS a, :name AS b", name=text).collect()[0]
        assert list(row) == [text, text]


@pytest.mark.spark
def test_spark_reads_back_every_name(spark: Spark) -> None:
    every = [name for name in [*AWKWARD, *_drawn(names, 100)] if name and "\x00" not in name]
    for start in range(0, len(every), 50):
        some = every[start : start + 50]
        frame = spark.sql("SELECT " + ", ".join(f"{i} AS {identifier(name)}" for i, name in enumerate(some)))
        assert frame.columns == some


@pytest.mark.spark
def test_spark_reads_back_numbers(spark: Spark) -> None:
    whole = [0, 1, -1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63 - 1, -(2**63)]
    broken = [
        0.0,
        1.5,
        -1.5,
        1e22,
        1e-7,
        5e-324,
        1.7976931348623157e308,
        -1.7976931348623157e308,
        0.1,
        *_drawn(_floats, 50),
    ]
    values = [*whole, *broken, True, False, None]
    row = spark.sql("SELECT " + ", ".join(literal(value) for value in values)).collect()[0]
    assert list(row) == values
    assert [type(value) for value in row] == [type(value) for value in values]


_floats = st.floats(allow_nan=False, allow_infinity=False)


def _drawn(strategy: st.SearchStrategy[Any], count: int) -> list[Any]:
    """Some values of a strategy, the same in every run."""
    from hypothesis import HealthCheck, Phase, settings

    found: list[Any] = []

    @settings(
        max_examples=count,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(value: Any) -> None:
        found.append(value)

    draw()
    return found


# No other code builds SQL by pasting. Whatever is put into a text that reads like a statement must come from
# identifier(), literal() or int(), be a constant, or stand here with a reason.
ALLOWED = {
    ("engine/commit/refs.py", "str(refs[gone].snapshot_ref_type)"): "PyIceberg's own enum: branch or tag",
    ("engine/commit/refs.py", "ref.kind"): "a Literal: branch or tag",
    ("engine/commit/refs.py", "milliseconds // size"): "a whole number",
    ("engine/commit/refs.py", "unit"): "a unit of the table right above",
    (
        "engine/spark/statements.py",
        "kind",
    ): "the name of a type, from the list in evolved_schema.py",
    (
        "engine/sql/batches.py",
        "reading.insertion.query(view, _values(reading.columns, reading.initial, 1))",
    ): "the author's own SELECT, parsed and written by sqlglot; its values are quoted in placeholders.py",
    ("features/sequence/checksums.py", "_MODULUS"): "a number of this module",
    ("features/sequence/checksums.py", "column.is_null"): "an expression over identifier(), made in columns.py",
    ("features/sequence/checksums.py", "column.text"): "an expression over identifier(), made in columns.py",
    ("features/sequence/checksums.py", "key"): "expressions over identifier(), joined right there",
    ("features/sequence/checksums.py", "rows"): "what partition_rows() or sql_name gives",
    ("features/sequence/connection.py", "most_seconds"): "a number",
    ("features/sequence/connection.py", "sql"): "a whole statement of a caller in this package",
    (
        "features/sequence/conversion.py",
        "definition(part, len(table.columns))",
    ): "a name by identifier() and numbers, made in reorganizing.py",
    ("features/sequence/copying.py", "_AT"): "a name of this module",
    ("features/sequence/copying.py", "select(columns)"): "expressions over identifier(), made in columns.py",
    ("features/sequence/checksums.py", "piece.condition(identifier(at))"): "whole numbers that the database gave",
    ("features/sequence/everywhere.py", "piece.condition(at)"): "whole numbers that the database gave",
    ("features/sequence/everywhere.py", "select_in_hex(columns)"): "expressions over identifier(), made in columns.py",
    ("features/sequence/everywhere.py", "source"): "by identifier(), right above",
    ("features/sequence/partitions.py", "bound[0]"): "a whole number",
    ("features/sequence/partitions.py", "columns[0]"): "by identifier(), right above",
    ("features/sequence/partitions.py", "comparison"): "a constant",
    ("features/sequence/partitions.py", "map(str, bound)"): "whole numbers",
    ("features/sequence/partitions.py", "sign"): "a constant",
    ("features/sequence/pieces.py", "Piece(after, None).condition(at)"): "whole numbers that the database gave",
    ("features/sequence/pieces.py", "at"): "by identifier(), right above",
    (
        "features/sequence/pieces.py",
        "max(1, int(size * seconds / max(time.monotonic() - began, seconds / _GROWTH)))",
    ): "a number",
    ("features/sequence/pieces.py", "rows"): "what partition_rows() or sql_name gives",
    ("features/sequence/partitions.py", "column"): "by identifier(), right above",
    ("features/sequence/reorganizing.py", "LOCK_SECONDS"): "a number",
    ("features/sequence/reorganizing.py", "MAXVALUE"): "a constant",
    ("features/sequence/reorganizing.py", "[MAXVALUE] * columns"): "a constant",
    ("features/sequence/reorganizing.py", "map(str, bound)"): "whole numbers",
    ("features/sequence/twins.py", "LOCK_SECONDS"): "a number",
    ("features/sequence/twins.py", "marked.comment"): "percent-encoded, without quotes or backslashes",
    ("features/sequence/twins.py", "partition"): "by identifier(), right above",
    ("features/sequence/twins.py", "table"): "by identifier(), right above",
    ("features/sequence/twins.py", "twin.comment"): "percent-encoded, without quotes or backslashes",
    ("state/database.py", "PATIENCE"): "a number of this module, formatted as one",
}
OWN_STATEMENTS = {
    "doors/cli/demo_lake.py": "makes the demo's tables from constants of its own; nothing a user gives reaches it",
    "engine/sql/in_duckdb.py": "DuckDB's own quotes, around every name; test_in_duckdb.py tries odd ones",
    "engine/sql/session_functions.py": "types of this project's own lists, and SELECTs of spark_lists.py",
    "features/viewset/spark_lists.py": "columns of metadata tables; names by identifier(), values by literal()",
}
STATEMENT = re.compile(
    r"^\s*(SELECT\b.*\bFROM|INSERT (INTO|OVERWRITE)|UPDATE \S+ SET|DELETE FROM|MERGE INTO|TRUNCATE"
    r"|DROP (TABLE|VIEW|TAG|BRANCH)"
    r"|(CREATE|REPLACE|ALTER)\b|CALL |SHOW |DESCRIBE |EXPLAIN |REFRESH |SET |PRAGMA |RETAIN |WITH \S+ AS \()"
    r"|\b(FROM|WHERE|VALUES|TBLPROPERTIES|AS OF)\s*[`('{]"
)
QUOTES = {"identifier", "literal", "text_literal", "int", "len"}
QUOTED = {"sql_name"}  # properties that identifier() gives


class Pasted:
    """Finds what is pasted into statements in one module."""

    def __init__(self, tree: ast.Module) -> None:
        self._functions = {n.name: n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
        self._scopes = [*self._functions.values(), tree]
        self._tree = tree

    def found(self) -> Iterator[str]:
        """Each expression, as source, that is put into a statement and is not known to be safe there."""
        for scope in self._scopes:
            for node in _within(scope):
                if STATEMENT.search(_shape(node)):
                    for value in self._unsafe(node, scope, frozenset()):
                        yield ast.unparse(value)

    def _unsafe(self, node: ast.AST, scope: ast.AST, seen: frozenset[str]) -> Iterator[ast.AST]:
        match node:
            case ast.Constant():
                return
            case ast.JoinedStr(values=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts):
                inner: list[ast.AST] = list(parts)
            case ast.FormattedValue(value=value):
                inner = [value]
            case ast.BinOp(op=ast.Add() | ast.Mod(), left=left, right=right):
                inner = [left, right]
            case ast.IfExp(body=body, orelse=orelse):
                inner = [body, orelse]
            case ast.GeneratorExp(elt=elt) | ast.ListComp(elt=elt):
                inner = [elt]
            case ast.Call(func=ast.Name(id=name)) if name in QUOTES:
                return
            case ast.Attribute(attr=name) if name in QUOTED:
                return
            case ast.Call(func=ast.Attribute(attr="join"), args=[argument]):
                inner = [argument]
            case ast.Call(func=ast.Attribute(attr="upper" | "lower", value=value), args=[]):
                inner = [value]
            case ast.Call(func=ast.Name(id=name)) if name in self._functions and name not in seen:
                function, seen = self._functions[name], seen | {name}
                for returned in (n.value for n in ast.walk(function) if isinstance(n, ast.Return) and n.value):
                    yield from self._unsafe(returned, function, seen)
                return
            case ast.Name(id=name) if name not in seen and self._assigned(name, scope):
                seen |= {name}
                inner = self._assigned(name, scope)
            case ast.Name(id=name) if self._given(name, scope):
                for given_value, caller in self._arguments(name, scope):
                    yield from self._unsafe(given_value, caller, seen | {name})
                return
            case _:
                yield node
                return
        for each in inner:
            yield from self._unsafe(each, scope, seen)

    def _assigned(self, name: str, scope: ast.AST) -> list[ast.AST]:
        assigned = [n for n in ast.walk(scope) if isinstance(n, ast.Assign)]
        return [n.value for n in assigned for target in n.targets if isinstance(target, ast.Name) and target.id == name]

    def _given(self, name: str, scope: ast.AST) -> bool:
        return isinstance(scope, ast.FunctionDef) and any(self._arguments(name, scope))

    def _arguments(self, name: str, scope: ast.AST) -> list[tuple[ast.AST, ast.AST]]:
        """What a private function of this module is called with for one of its parameters."""
        if not isinstance(scope, ast.FunctionDef) or not scope.name.startswith("_"):
            return []
        place = next((i for i, argument in enumerate(scope.args.args) if argument.arg == name), None)
        calls = [
            (call, caller)
            for caller in self._scopes
            for call in _within(caller)
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == scope.name
        ]
        if place is None or any(len(call.args) <= place for call, _ in calls):
            return []
        return [(call.args[place], caller) for call, caller in calls]


def _within(scope: ast.AST) -> Iterator[ast.AST]:
    """A scope's nodes without those of the functions inside it."""
    for child in ast.iter_child_nodes(scope):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
            yield from _within(child)


def _shape(node: ast.AST) -> str:
    """The text that a pasted string begins to make, with a brace for each gap; nothing for other nodes."""
    match node:
        case ast.JoinedStr(values=parts) if any(isinstance(p, ast.FormattedValue) for p in parts):
            return "".join(str(p.value) if isinstance(p, ast.Constant) else "{" for p in parts)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return "".join(str(p.value) if isinstance(p, ast.Constant) else _shape(p) or "{" for p in (left, right))
        case ast.BinOp(op=ast.Mod(), left=ast.Constant(value=str(text))):
            return text.replace("%", "{")
        case ast.Call(func=ast.Attribute(attr="format", value=ast.Constant(value=str(text)))):
            return text
    return ""


def pasted(source: str) -> list[str]:
    return list(Pasted(ast.parse(source)).found())


def test_no_module_pastes_sql() -> None:
    found = {
        (str(path.relative_to(SOURCES)), value)
        for path in SOURCES.rglob("*.py")
        if path.name != "quoting.py" and str(path.relative_to(SOURCES)) not in OWN_STATEMENTS
        for value in pasted(path.read_text())
    }
    assert found - set(ALLOWED) == set(), "quote these with identifier() or literal(), or pass them as values"
    assert set(ALLOWED) - found == set(), "these are no longer pasted: take them off the list"


@pytest.mark.parametrize(
    "source",
    [
        'spark.sql(f"SELECT * FROM {name}")',
        'spark.sql(f"select 1"); spark.sql("DELETE FROM t WHERE id = %s" % id)',
        'spark.sql("DROP TABLE " + name)',
        'x = name\nspark.sql(f"ALTER TABLE {x} ADD COLUMN y INT")',
        'def _make(name):\n    return f"CALL {name}()"\n_make(given)',
        'spark.sql("INSERT INTO {} VALUES (1)".format(name))',
        "spark.sql(f\"SELECT {identifier(a)} FROM {identifier(b)} WHERE x = '{c}'\")",
        "spark.sql(f\"ALTER TABLE {target} SET TBLPROPERTIES ({', '.join(k for k in keys)})\")",
    ],
)
def test_pasting_is_seen(source: str) -> None:
    assert pasted(source)


@pytest.mark.parametrize(
    "source",
    [
        'spark.sql(f"SELECT * FROM {identifier(name)} WHERE x = {literal(y)} LIMIT {int(z)}")',
        't = identifier(name)\nspark.sql(f"DROP TABLE {t}")',
        'def _make(name):\n    return f"CALL {name}()"\n_make(identifier(given))',
        "spark.sql(f\"ALTER TABLE {identifier(t)} SET TBLPROPERTIES ({', '.join(literal(k) for k in keys)})\")",
        'raise Problem(f"no table {name} in lake {lake}")',
    ],
)
def test_quoting_is_not_pasting(source: str) -> None:
    assert not pasted(source)
