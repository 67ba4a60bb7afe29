"""Plans as values: what an operation will do, what each step requires, and what it expects.

A plan is frozen and serialisable. Its id is a hash of its actions, so that planning twice on an unchanged lake gives
the same id; estimates and times are not part of it. Users see the same list of actions that the runner applies.

A plan's JSON has only the number, size and digest of an action's files. The journal stores the files separately, and
the runner loads those of the current subject.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from pydantic import TypeAdapter

from lakewarden.errors import StateUnavailable
from lakewarden.lifecycle import plan_text
from lakewarden.lifecycle.action import Action, Estimate, Finding, Verdict, digest
from lakewarden.lifecycle.planned_files import FileList


@dataclass(frozen=True, repr=False)
class Plan:
    """What an operation will do to a target, action by action."""

    kind: str
    target: str
    actions: tuple[Action, ...] = ()
    warnings: tuple[str, ...] = ()
    refused: tuple[Finding, ...] = ()
    """Requested subjects that cannot be changed. The others are, and the operation then counts as failed."""
    verdicts: tuple[Verdict, ...] = ()
    """What was decided during planning, and why; not part of the plan's id."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What the plan is derived from, for programs; not part of its id, and also part of the operation's result."""

    @cached_property
    def id(self) -> str:
        actions = [action.effect for action in self.actions]
        refused = {"refused": [asdict(finding) for finding in self.refused]} if self.refused else {}
        return "plan-" + digest({"kind": self.kind, "target": self.target, "actions": actions, **refused})

    @property
    def subjects(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(action.subject for action in self.actions))

    def for_subject(self, subject: str) -> Plan:
        """The part of this plan for one subject, which is applied and verified separately."""
        return Plan(self.kind, self.target, self._by_subject.get(subject, ()))

    @cached_property
    def _by_subject(self) -> dict[str, tuple[Action, ...]]:
        grouped: dict[str, list[Action]] = {}
        for action in self.actions:
            grouped.setdefault(action.subject, []).append(action)
        return {subject: tuple(actions) for subject, actions in grouped.items()}

    def without_files(self) -> Plan:
        """The same plan with counts of files only."""
        return self._with(lambda action: replace(action.files, items=()))

    def with_files(self, load: Callable[[str], FileList]) -> Plan:
        """The same plan with its files, loaded by action id; refused if they are not the planned ones."""

        def loaded(action: Action) -> FileList:
            files = load(action.id)
            if files != action.files:
                raise StateUnavailable(
                    f"the stored files of an action differ from the planned ones ({action.subject}: {action.says})",
                    "The control database lost or changed them. Nothing was changed; plan again.",
                )
            return files

        return self._with(loaded)

    def _with(self, files: Callable[[Action], FileList]) -> Plan:
        actions = tuple(replace(a, files=files(a)) if a.files.count else a for a in self.actions)
        return replace(self, actions=actions)

    @property
    def estimate(self) -> Estimate:
        return sum((action.estimate for action in self.actions), Estimate())

    def document(self, files: bool = False) -> dict[str, Any]:
        """The plan as shown to users under the key `plan`, optionally with every file."""
        dumped = _ACTIONS.dump_python(self.actions, mode="json", exclude=_EVERY_ACTIONS_FILES)
        actions = [{"id": a.id, **d} for a, d in zip(self.actions, dumped, strict=True)]
        if files:
            for action, shown in zip(self.actions, actions, strict=True):
                shown["files"]["items"] = [
                    {"path": file.path, "bytes": file.bytes, "kind": file.kind, "group": file.group}
                    for file in action.files.items
                ]
        summary = {
            "actions": len(self.actions),
            "subjects": len(self.subjects),
            "estimate": TypeAdapter(Estimate).dump_python(self.estimate, mode="json"),
        }
        return {
            "id": self.id,
            "kind": self.kind,
            "target": self.target,
            "actions": actions,
            "summary": summary,
            "warnings": list(self.warnings),
            "refused": [asdict(finding) for finding in self.refused],
            **({"verdicts": _VERDICTS.dump_python(self.verdicts, mode="json")} if self.verdicts else {}),
            **({"details": dict(self.details)} if self.details else {}),
        }

    def __repr__(self) -> str:
        return plan_text.as_text(self)

    def _repr_html_(self) -> str:
        return plan_text.as_html(self)

    def to_json(self) -> str:
        return _PLAN.dump_json(self, exclude={"actions": _EVERY_ACTIONS_FILES}).decode()

    @staticmethod
    def from_json(text: str) -> Plan:
        return _PLAN.validate_json(text)


_EVERY_ACTIONS_FILES = {"__all__": {"files": {"items"}}}
_PLAN = TypeAdapter(Plan)
_VERDICTS = TypeAdapter(tuple[Verdict, ...])
_ACTIONS = TypeAdapter(tuple[Action, ...])
