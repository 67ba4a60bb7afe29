"""The tree of errors that Lakewarden raises on purpose.

    LakewardenError                      exit code 1 unless noted otherwise
    ├── WrongUse                         exit code 2: the request itself is wrong
    │   ├── BadValue                     an argument that does not fit its field
    │   ├── BadReference                 a text that is not [lake.]namespace.table[@ref]
    │   ├── BadFilter                    a --where that cannot be parsed, or names an unknown column
    │   ├── ConfigProblem                configuration that is missing, unreadable, or has an unknown key
    │   └── NotFound                     an unknown name
    │       ├── LakeNotFound, TableNotFound, VersionNotFound, OperationNotFound, ColumnNotFound
    ├── Conflict                         a valid request that the state of the lake or the journal forbids
    │   ├── AlreadyExists, NotAncestor, StalePlan, LeaseHeld, LeaseLost, CommitRefused
    │   ├── Barred                       the request or the configuration allows no more than a plan
    │   ├── UnfitDatabase                a server or a database table that cannot be maintained
    │   ├── UnsupportedTable             its format version, its encryption or the format of its files
    │   ├── DeletionForbidden            the table's files must not be deleted, or another table may own them
    │   └── IllegalTransition            an operation cannot change from one state to another
    ├── Unavailable                      a service does not answer or denies access
    │   ├── CatalogUnavailable (CatalogBusy), StorageUnavailable, StateUnavailable, SparkUnavailable
    │   ├── DatabaseUnavailable (DatabaseBusy)
    ├── StatementFailed                  the operational database refused a statement
    ├── BrokenTable                      the table's metadata or files cannot be read
    ├── Interrupted                      the operation stopped between two actions and can be resumed
    ├── VerificationFailed               after applying, the plan's result was not found
    ├── TracesLeft                       exit code 3: a proof of erasure found traces
    ├── NotGenuine                       exit code 3: a certificate was altered, or signed with another key
    ├── SomeFailed                       some subjects of a plan failed
    │   └── TracesLeftInSome             exit code 3: all failures are traces
    └── SomeOperationsFailed             some of several operations could not be resumed

Each has a stable `code`, a message that says what is wrong with what, and a hint that says what to do. Doors turn
errors into exit codes, JSON or HTTP answers.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, ClassVar


class LakewardenError(Exception):
    """The root of all errors."""

    code: ClassVar[str] = "failed"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, hint: str = "", **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details

    def __str__(self) -> str:
        """The message and the hint, as tracebacks and notebooks show them."""
        return f"{self.message.rstrip('.')}. {self.hint}" if self.hint else self.message

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.message!r}, {self.hint!r})"

    def document(self) -> dict[str, Any]:
        """The value of the key `error` in JSON answers."""
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


class Barred(Conflict):
    code = "barred"


class UnfitDatabase(Conflict):
    code = "unfit-database"


class DeletionForbidden(Conflict):
    code = "deletion-forbidden"


class UnsupportedTable(Conflict):
    code = "unsupported-table"


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


class DatabaseUnavailable(Unavailable):
    code = "database-unavailable"


class DatabaseBusy(DatabaseUnavailable):
    code = "database-busy"


class StatementFailed(LakewardenError):
    code = "statement-failed"


class BrokenTable(LakewardenError):
    """`file` is the damaged file, if known. It is in no document, because paths may hold values of rows."""

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
    code = "traces-left"
    exit_code = 3


def some_failed(codes: Iterable[str]) -> type[SomeFailed]:
    """The error for subjects that failed with these codes: traces if all of them have traces."""
    return TracesLeftInSome if set(codes) == {TracesLeft.code} else SomeFailed


class SomeOperationsFailed(LakewardenError):
    code = "some-operations-failed"


def did_you_mean(given: str, known: Iterable[str], otherwise: str = "") -> str:
    """A hint that names the most similar known word, or `otherwise` if none is similar."""
    near = difflib.get_close_matches(given, list(known), n=1, cutoff=0.6)
    return f"Did you mean {near[0]}?" if near else otherwise
