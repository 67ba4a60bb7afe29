"""The declaration of a capability, which is also its request: a model with the fields that users may set.

A capability is a `Question` or an `Operation`. Registrations, and what steers Lakewarden itself, such as applying a
stored plan, are `Control`s; what needs no installation, such as creating one, is a `Setup`. Its address, a noun and a
verb, comes from its module: `lakewarden.features.version.tag` is `version tag` on the command line,
`/api/v1/version/tag` over REST and `warden.version.tag` in Python. Fields become arguments and options.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    Protocol,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr
from pydantic.fields import FieldInfo

from lakewarden.lifecycle.action import Action, Finding, Outcome
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.states import Stop

if TYPE_CHECKING:
    from lakewarden.lifecycle.desk import ControlDesk
    from lakewarden.lifecycle.ground import Reader, Writer

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Address:
    """The noun and verb of a capability."""

    noun: str
    verb: str

    @property
    def kind(self) -> str:
        return f"{self.noun}.{self.verb}"

    def __str__(self) -> str:
        return f"{self.noun} {self.verb}"


class Positional:
    """Marks a field that is a positional argument on the command line."""


class Completes:
    """Marks a field whose values a shell can complete, and from what."""

    def __init__(self, what: str) -> None:
        self.what = what


class ReadsInput:
    """Marks a list of values that the command line can also read: `-` from stdin, or --from-file from a file.

    Arguments are visible in process lists; input is not.
    """


class Document:
    """Marks a field whose value is usually kept in a file, such as a definition.

    On the command line it is a YAML or JSON file, or `-` for stdin; over REST and in Python it is the value itself.
    """


@dataclass(frozen=True)
class ReadValues:
    """Values read for a request, and where each was found; its repr shows no value."""

    values: Sequence[str] = dataclasses.field(repr=False)
    typed: int = 0
    """The number of values given as arguments rather than read: these are identified by their number."""
    places: Sequence[str] = ()
    notes: Sequence[str] = ()

    def place(self, number: int) -> str:
        """Where a value is, counted from one: its number, or the file and line."""
        at = number - 1 - self.typed
        return self.places[at] if 0 <= at < len(self.places) else f"value {number}"


class Input(Protocol):
    """A source of values, read once the request knows their type."""

    def read(self, names: Collection[str], fits: Callable[[str], bool]) -> ReadValues:
        """The values. A header may name their column by one of `names`; `fits` tells whether a text can be a value."""
        ...


def _at_commas(given: Any) -> Any:
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        return given
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]


CommaSeparated = BeforeValidator(_at_commas)
"""Marks a list of texts that may be given as one, separated by commas."""

Table = Annotated[str, Positional(), Completes("tables"), Field(description="[lake.]namespace.table")]
Version = Annotated[
    str,
    Positional(),
    Completes("tables"),
    Field(description="[lake.]namespace.table[@ref]; ref is a tag, branch, snapshot id or ISO time, else main's head."),
]


class Request(BaseModel):
    """Common to questions, operations and controls: fields, an address, a description."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=False, serialize_by_alias=True)

    nothing: ClassVar[str] = "None."
    """What to show if the answer is empty."""

    @classmethod
    def address(cls) -> Address:
        noun, verb = cls.__module__.split(".")[-2:]
        return Address(noun.replace("_", "-"), verb.replace("_", "-"))

    @classmethod
    def says(cls) -> str:
        """The first line of the declaration's docstring."""
        return (cls.__doc__ or "").strip().split("\n")[0]

    @classmethod
    def fields(cls) -> dict[str, FieldInfo]:
        """Its fields by public name: a field whose name clashes with a method has an alias."""
        return {field.alias or name: field for name, field in cls.model_fields.items()}

    @classmethod
    def positional(cls) -> tuple[str, ...]:
        return cls._marked(Positional)

    @classmethod
    def documents(cls) -> tuple[str, ...]:
        return cls._marked(Document)

    @classmethod
    def _marked(cls, kind: type) -> tuple[str, ...]:
        return tuple(
            name for name, field in cls.fields().items() if any(isinstance(mark, kind) for mark in marks(field))
        )


class TakesInput(Request):
    """A request with values that may be read from a source, such as a file."""

    _input: Input | None = PrivateAttr(None)

    def read_from(self, source: Input) -> None:
        """Read the values from here rather than from the marked field."""
        self._input = source


def marks(field: FieldInfo) -> Iterator[Any]:
    """The markers of a field, also of an optional one: `Table | None` is as positional as `Table`."""
    yield from field.metadata
    if get_origin(field.annotation) in (Union, UnionType):
        for inner in get_args(field.annotation):
            yield from getattr(inner, "__metadata__", ())


def described(field: FieldInfo) -> str:
    """A field's help on the command line."""
    how = " A YAML or JSON file, or - for stdin." if any(isinstance(mark, Document) for mark in marks(field)) else ""
    return f"{field.description or ''}{how}"


@dataclass(frozen=True)
class Noted:
    """What is recorded of a question: the table, a sentence, the fields that may be kept, and details. No values."""

    target: str
    says: str
    request: str
    result: Mapping[str, Any]


class Question(Request, Generic[Answer]):
    """Reads and changes nothing."""

    @abstractmethod
    def ask(self, lake: Reader) -> Answer: ...

    def noted(self, lake: Reader) -> Noted | None:
        """What the journal records before the question is answered, such as a look at hidden rows; mostly nothing."""
        return None

    def shown(self) -> tuple[int, str] | None:
        """How many rows of a longer answer are shown to people, and the option for more; programs get all rows."""
        return None

    def to_show(self) -> Self:
        """The question for an answer that is shown or sent; not used by Python, which gets the answer as a value."""
        return self

    def found(self, answer: Answer) -> bool:
        """Whether the answer is a finding (exit code 3)."""
        return False

    @classmethod
    def answer_type(cls) -> Any:
        return _answer_type(cls, Question)


class Operation(Request):
    """Changes something, always through plan → apply → verify → journal."""

    destructive: ClassVar[bool] = False
    """Whether it can remove something or rewrite much: then it is only planned unless --apply is given."""

    @abstractmethod
    def plan(self, lake: Reader) -> Plan:
        """Work out what would be done, without changing anything."""

    @abstractmethod
    def holds(self, action: Action, lake: Reader) -> bool:
        """Whether the action's postcondition holds already, checked in the lake and not remembered."""

    @abstractmethod
    def apply(self, action: Action, lake: Writer) -> Outcome:
        """Carry out an action whose requirements hold and whose postcondition does not."""

    def done_already(self, action: Action, lake: Writer) -> Outcome:
        """What to report of an action that holds before it is applied: an earlier run has done it, or others."""
        return Outcome(action.expects)

    def tidy(self, action: Action, lake: Writer) -> None:
        """Remove what a killed run left of this action. Called once it holds, when nothing else can be committed."""

    def verify(self, plan: Plan, lake: Reader) -> list[Finding]:
        """Look for anything that differs from the plan. Never receives what `apply` returned."""
        return [
            Finding(action.subject, f"not the case after applying: {action.says}")
            for action in plan.actions
            if not self.holds(action, lake)
        ]

    def limit_reached(self, elapsed: timedelta, begun: int) -> Literal[Stop.BUDGET, Stop.PAUSE] | None:
        """Whether to stop before the next action; `begun` counts the actions of this run.

        Applied actions are verified, the rest is left. With BUDGET the operation is done; with PAUSE it is paused, and
        continues when it is resumed by its id.
        """
        return None

    def barred(self, lake: Reader) -> str:
        """Why no plan of it may be applied, as configured now; empty if it may. Checked whenever a run begins."""
        return ""

    def ended(self, plan: Plan, failures: Collection[str], lake: Writer) -> None:
        """Called at the end of each run, also if there was nothing to do; `failures` are the subjects that failed."""

    def stopped(self, plan: Plan, lake: Writer) -> None:
        """Called instead of `ended` if a run stops on request or for a signal."""

    def skips_held(self) -> bool:
        """Whether a subject held by another operation is skipped without a failure, as in regular upkeep."""
        return False

    def concluded(self, result: dict[str, Any], lake: Reader) -> dict[str, Any]:
        """The measured result, completed with figures for the whole operation, such as a share."""
        return result

    def side_by_side(self) -> int:
        """How many subjects run in parallel: the field or property `parallel`, else one."""
        return max(1, int(getattr(self, "parallel", 1)))

    @classmethod
    def kind(cls) -> str:
        return cls.address().kind


class TableOperation(Operation):
    """An operation on tables: unpublished files of a killed run are swept from their folders."""

    def tidy(self, action: Action, lake: Writer) -> None:
        if any(need.identifies for need in action.requires):  # else there is no table
            lake.sweep(action.subject)


class Control(Request, Generic[Answer]):
    """Registers something, or steers Lakewarden itself. It has no plan."""

    journaled: ClassVar[bool] = True
    """Whether `act` leaves a record of what it changed or answered, with `desk.record`.

    A control that steers operations leaves none, because they have their own; nor does one that only shows something.
    """

    @abstractmethod
    def act(self, desk: ControlDesk) -> Answer: ...

    def found(self, answer: Answer) -> bool:
        """Whether the answer is a finding (exit code 3)."""
        return False

    @classmethod
    def answer_type(cls) -> Any:
        return _answer_type(cls, Control)


class Setup(Request, Generic[Answer]):
    """Works on the local machine without an installation: creates one, or reads a file."""

    @abstractmethod
    def make(self) -> Answer: ...

    @classmethod
    def answer_type(cls) -> Any:
        return _answer_type(cls, Setup)


def _answer_type(cls: type[BaseModel], base: type[BaseModel]) -> Any:
    for ancestor in cls.__mro__:
        meta = getattr(ancestor, "__pydantic_generic_metadata__", None)
        if meta and meta["origin"] is base and meta["args"]:
            return meta["args"][0]
    for ancestor in getattr(cls, "__orig_bases__", ()):
        return get_args(ancestor)[0]
    raise TypeError(f"{cls.__name__} does not say what it answers with")
