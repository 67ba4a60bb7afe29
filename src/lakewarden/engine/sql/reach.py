"""SQL reads tables and computes values. What would run other programs is refused, whoever wrote it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakewarden.errors import BadValue

if TYPE_CHECKING:
    from sqlglot import exp

_RUN_JAVA = ("reflect", "java_method", "try_reflect")


def refuse_programs(tree: exp.Expr) -> None:
    """Refuse Spark's TRANSFORM … USING, which starts a program, and functions that call Java."""
    from sqlglot import exp

    if tree.find(exp.QueryTransform) is not None:
        raise BadValue("TRANSFORM … USING is not available in SQL", "It runs a program.")
    for function in tree.find_all(exp.Anonymous):
        if function.name.lower() in _RUN_JAVA:
            raise BadValue(f"the function {function.name} is not available in SQL", "It runs Java code.")
