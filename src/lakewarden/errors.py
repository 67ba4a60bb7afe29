"""The one tree of errors that Lakewarden raises on purpose.

    LakewardenError                      exit code 1 unless said otherwise
    ├── WrongUse                         exit code 2: what was asked cannot be meant
    │   ├── BadValue                     an argument that does not fit its field
    │   ├── BadReference                 a text that is not [lake.]namespace.table[@ref]
    │   ├── BadFilter                    a --where that cannot be read, or names no column
    │   ├── ConfigProblem                no configuration, unreadable, or an unknown key in it
    │   └── NotFound                     a name that nothing answers to
    │       ├── LakeNotFound, TableNotFound, VersionNotFound, OperationNotFound, ColumnNotFound
    ├── Conflict                         the request is fine; the lake's or the journal's state forbids it
    │   ├── AlreadyExists, NotAncestor, StalePlan, LeaseHeld, LeaseLost, CommitRefused
    │   ├── DeletionForbidden            the table, or another one below it, says that its files must stay
    │   └── IllegalTransition            an operation cannot go from this state to that one
    ├── Unavailable                      something around Lakewarden does not answer or does not let it
    │   ├── CatalogUnavailable (CatalogBusy), StorageUnavailable, StateUnavailable, SparkUnavailable
    ├── BrokenTable                      the table's own metadata or files cannot be read
    ├── Interrupted                      the operation stopped between two actions and can be resumed
    ├── VerificationFailed               applied, and then found not to be so
    ├── TracesLeft                       exit code 3: a proof of erasure found something that is left
    ├── NotGenuine                       exit code 3: a certificate is not as it was signed, or by another key
    ├── SomeFailed                       of a plan over several subjects, not all came through
    │   └── TracesLeftInSome             exit code 3: nothing else went wrong
    └── SomeOperationsFailed             of several operations to resume, not all could be finished

Each carries a stable `code`, a message that says what it is about and what is the case, and a
hint that says what to do. Doors turn them into exit codes, JSON or HTTP answers.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, ClassVar


class LakewardenError(Exception):
    """Root of everything raised on purpose."""

    code: ClassVar[str] = "failed"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, hint: str = "", **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details

    def __str__(self) -> str:
        """What is the case and what to do about it, as a traceback and a notebook show it."""
        return f"{self.message.rstrip('.')}. {self.hint}" if self.hint else self.message

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.message!r}, {self.hint!r})"

    def document(self) -> dict[str, Any]:
        """The error as every door shows it under the key `error`."""
        return {"code": self.code, "message": self.message, "hint": self.hint, **self.details}


class WrongUse(LakewardenError):
    code = "wrong-use"
    exit_code = 2


class BadValue(WrongUse):
    code = "bad-value"


class BadReference(WrongUse):
    code = "bad-reference"


class BadFilter(WrongUse):
    code = "bad-filter"


class ConfigProblem(WrongUse):
    code = "config"


class NotFound(WrongUse):
    code = "not-found"


class LakeNotFound(NotFound):
    code = "lake-not-found"


class TableNotFound(NotFound):
    code = "table-not-found"


class VersionNotFound(NotFound):
    code = "version-not-found"


class ColumnNotFound(NotFound):
    code = "column-not-found"


class OperationNotFound(NotFound):
    code = "operation-not-found"


class Conflict(LakewardenError):
    code = "conflict"


class AlreadyExists(Conflict):
    code = "already-exists"


class NotAncestor(Conflict):
    code = "not-ancestor"


class StalePlan(Conflict):
    code = "stale"


class LeaseHeld(Conflict):
    code = "lease-held"


class LeaseLost(Conflict):
    code = "lease-lost"


class CommitRefused(Conflict):
    code = "commit-refused"


class DeletionForbidden(Conflict):
    code = "deletion-forbidden"


class IllegalTransition(Conflict):
    code = "illegal-transition"


class Unavailable(LakewardenError):
    code = "unavailable"


class CatalogUnavailable(Unavailable):
    code = "catalog-unavailable"


class CatalogBusy(CatalogUnavailable):
    code = "catalog-busy"


class StorageUnavailable(Unavailable):
    code = "storage-unavailable"


class StateUnavailable(Unavailable):
    code = "state-unavailable"


class SparkUnavailable(Unavailable):
    code = "spark-unavailable"


class BrokenTable(LakewardenError):
    """`file` is the damaged one, where it is known; it is in no document, for paths may hold values of rows."""

    code = "broken-table"

    def __init__(
        self, message: str, hint: str = "", *, file: str = "", is_explained: bool = False, **details: Any
    ) -> None:
        super().__init__(message, hint, **details)
        self.file = file
        self.is_explained = is_explained


class Interrupted(LakewardenError):
    code = "interrupted"


class VerificationFailed(LakewardenError):
    code = "verification-failed"


class TracesLeft(LakewardenError):
    code = "traces-left"
    exit_code = 3


class NotGenuine(LakewardenError):
    code = "not-genuine"
    exit_code = 3


class SomeFailed(LakewardenError):
    code = "some-failed"


class TracesLeftInSome(SomeFailed):
    """Of several tables that were looked through, some still hold something, and nothing else went wrong."""

    code = "traces-left"
    exit_code = 3


def some_failed(codes: Iterable[str]) -> type[SomeFailed]:
    """What subjects that failed with these codes are together: traces, where each of them has traces."""
    return TracesLeftInSome if set(codes) == {TracesLeft.code} else SomeFailed


class SomeOperationsFailed(LakewardenError):
    code = "some-operations-failed"


def did_you_mean(given: str, known: Iterable[str], otherwise: str = "") -> str:
    """A hint that names the nearest known word, or `otherwise` where none is near."""
    near = difflib.get_close_matches(given, list(known), n=1, cutoff=0.6)
    return f"Did you mean {near[0]}?" if near else otherwise
