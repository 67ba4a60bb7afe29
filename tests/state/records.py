"""Operations to put into journals."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from lakewarden.lifecycle.action import Action, Estimate
from lakewarden.lifecycle.journal import Record
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.planned_files import FileList, PlannedFile
from lakewarden.lifecycle.requirement import RefAt, TableIs

NOON = datetime(2026, 3, 29, 12, 0, 0, 123456, UTC)


def a_plan(*tables: str, kind: str = "version.tag", name: str = "v1") -> Plan:
    """A plan with two actions for each table, the first of them with files."""
    actions = [
        Action(
            verb=verb,
            subject=table,
            lease=f"table:uuid-of-{table}",
            says=f"{verb} {table} — ‘{name}’",
            arguments={"name": name, "keep": True, "share": 0.5, "limit": None, "snapshot": 2**62 + 1},
            requires=(TableIs(table, f"uuid-of-{table}"), RefAt(table, "main", 2**62 + 1), RefAt(table, name, None)),
            expects={"rows": 10},
            estimate=Estimate(files=3, bytes=2**40, rows=10, seconds=1.5),
            files=FileList.of([PlannedFile(f"s3://ü/{table}/{n}", 2**40 + n, "data", n) for n in range(3)])
            if verb == "tag"
            else FileList(),
        )
        for table in tables
        for verb in ("tag", "check")
    ]
    return Plan(kind, ",".join(tables), tuple(actions), warnings=("mind the gap",))


def an_operation(id: str, plan: Plan | None = None, minutes: int = 0) -> Record:
    """An operation planned some minutes after noon."""
    plan = plan or a_plan("sales.orders")
    return Record.planned(id, plan, '{"table":"sales.orders"}', "ada", NOON + timedelta(minutes=minutes))
