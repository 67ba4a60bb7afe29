"""Translates errors of catalogs, storage and Spark into Lakewarden's own.

Libraries raise many kinds of errors; users see one hierarchy. Everything that touches a catalog or a file runs inside
`translating`, so that no foreign exception leaves the engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lakewarden.engine.base.support import unsupported_format, unsupported_version
from lakewarden.errors import BrokenTable, CatalogBusy, CatalogUnavailable, LakewardenError, StorageUnavailable

_DOCTOR = "Run lakewarden lake doctor for details."
_UNNAMED = "It was not written for Iceberg: give the table a name mapping."
_MAPPED = (
    "The table has a name mapping, but rows are erased only from files with field ids. "
    "Rewrite it with lakewarden compaction compact --rewrite-all. After the next write to the table, expire "
    "the versions that have it, and their tags: lakewarden retention expire --keep-last 1 --keep-days 0. "
    "If it is outside the table's folder, delete it yourself: nothing else finds it."
)


@contextmanager
def translating(about: str) -> Iterator[None]:
    """Translate what the body raises; `about` names the lake or table."""
    try:
        yield
    except LakewardenError:
        raise
    except Exception as error:
        translated = translate(error, about)
        if translated is None:
            raise
        raise translated from error


@contextmanager
def decoding(location: str) -> Iterator[None]:
    """Name the metadata file that is damaged: a decoder can raise anything on one."""
    try:
        yield
    except LakewardenError:
        raise
    except FileNotFoundError as error:
        raise BrokenTable(f"{location} is missing", "Was it deleted or moved manually?", file=location) from error
    except OSError:
        raise
    except Exception as error:
        if unsupported := unsupported_format(error, f"the manifest {location}"):
            raise unsupported from None
        raise BrokenTable(
            f"{location} cannot be read: {first_line(error)}",
            "The file is corrupt: restore it from a backup.",
            file=location,
        ) from error


@contextmanager
def quietly_read(path: str, hint: str, about: str = "", is_mapped: bool = False) -> Iterator[None]:
    """Name the data or delete file that cannot be read, without Arrow's message, which may quote a value.

    `is_mapped` if the table maps names to columns for files without field ids.
    """
    import pyarrow as pa

    from lakewarden.engine.kernel.messages import RewriteFault

    of = f"{about}: " if about else ""
    try:
        yield
    except RewriteFault as fault:
        unnamed = _MAPPED if is_mapped else _UNNAMED
        raise BrokenTable(f"{of}{fault.message}: {path}", unnamed if fault.kind == "no-field-ids" else "") from None
    except FileNotFoundError:
        raise BrokenTable(f"{of}the file {path} is missing", hint, file=path) from None
    except PermissionError:
        raise StorageUnavailable(f"{of}permission denied for the file {path}", "Check its permissions.") from None
    except (pa.ArrowException, OSError):
        raise BrokenTable(
            f"{of}the file {path} cannot be read: it is damaged or unavailable", hint, file=path
        ) from None


def translate(error: Exception, about: str) -> LakewardenError | None:
    """The error to show for a library's exception; None if it looks like a bug."""
    family = type(error).__module__.split(".")[0]
    message = first_line(error)
    if family == "sqlalchemy":
        if "locked" in message:
            held = f"{about}: the catalog's database is locked by another process: {message}"
            return CatalogBusy(held, "Try again in a moment.")
        return CatalogUnavailable(
            f"{about}: the catalog's database does not respond: {message}",
            "Check the lake's catalog uri, or run lakewarden lake doctor.",
        )
    if is_refusal(error):
        return CatalogUnavailable(
            f"{about}: the catalog refuses: {message}", "Check the credentials in the lake's catalog section."
        )
    if family in ("requests", "urllib3", "botocore", "thrift", "hive_metastore") or _is_rest(error):
        return CatalogUnavailable(f"{about}: the catalog does not respond: {message}", _DOCTOR)
    if isinstance(error, FileNotFoundError):
        return BrokenTable(f"{about}: a file it needs is missing: {message}", "Was it deleted or moved manually?")
    if isinstance(error, PermissionError) or _is_read_only(error):
        return StorageUnavailable(
            f"{about}: the storage cannot be written or read: {message}", "Check its permissions."
        )
    if isinstance(error, OSError):
        return StorageUnavailable(f"{about}: the storage does not respond: {message}", _DOCTOR)
    if unsupported := unsupported_version(error, about) or unsupported_format(error, about):
        return unsupported
    if family in ("pydantic", "pydantic_core", "json") or _is_unreadable_metadata(error):
        return BrokenTable(
            f"{about}: its metadata cannot be read: {message}", "The file is corrupt, or not Iceberg metadata."
        )
    return None


def first_line(error: BaseException) -> str:
    """The first line of a message, without the statement or link that libraries append."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    message = lines[0] if lines else type(error).__name__
    return message[:300]


def _is_unreadable_metadata(error: Exception) -> bool:
    if isinstance(error, UnicodeDecodeError):
        return True
    return type(error).__name__ == "ValidationError" and type(error).__module__ == "pyiceberg.exceptions"


def is_refusal(error: Exception) -> bool:
    """Whether a REST catalog answered and refused, so that the request was not carried out."""
    return _is_rest(error) and not _kinds(error) & {
        "ServerError",
        "ServiceUnavailableError",
        "CommitStateUnknownException",
    }


def _is_rest(error: Exception) -> bool:
    return "RESTError" in _kinds(error)


def _kinds(error: Exception) -> set[str]:
    return {base.__name__ for base in type(error).__mro__}


def _is_read_only(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno in (13, 30)  # EACCES, EROFS
