"""Translates errors of catalogs, storage and Spark into Lakewarden's own.

Libraries raise many kinds of errors; users see one hierarchy. Everything that touches a catalog or a file runs inside
`told`, so that no foreign exception leaves the engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lakewarden.errors import BrokenTable, CatalogBusy, CatalogUnavailable, LakewardenError, StorageUnavailable

_UNNAMED = "It was not written for Iceberg: give the table a name mapping."
_MAPPED = (
    "The table has a name mapping, but rows are erased only from files with field ids. "
    "Write it anew with lakewarden compaction compact --rewrite-all; once the table was written to again, "
    "let the versions go that have it, with lakewarden retention expire --keep-last 1 --keep-days 0, and their tags. "
    "If it lies outside of the table's folder, remove it yourself: nothing finds it then."
)


@contextmanager
def told(about: str) -> Iterator[None]:
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
        raise BrokenTable(f"{location} is not there", "Was it removed by hand, or moved?", file=location) from error
    except OSError:
        raise
    except Exception as error:
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
        raise BrokenTable(f"{of}the file {path} is not there", hint, file=path) from None
    except PermissionError:
        raise StorageUnavailable(f"{of}the file {path} may not be read", "Look at its permissions.") from None
    except (pa.ArrowException, OSError):
        raise BrokenTable(
            f"{of}the file {path} cannot be read: it is damaged, or the storage does not give it", hint, file=path
        ) from None


def translate(error: Exception, about: str) -> LakewardenError | None:
    """The error to show for a library's exception; None if it looks like a bug."""
    family = type(error).__module__.split(".")[0]
    said = first_line(error)
    if family == "sqlalchemy":
        if "locked" in said:
            held = f"{about}: the catalog's database is locked by another process: {said}"
            return CatalogBusy(held, "Try again in a moment.")
        return CatalogUnavailable(
            f"{about}: the catalog's database does not answer: {said}",
            "Look at the lake's catalog uri; lakewarden lake doctor tells more.",
        )
    if is_refusal(error):
        return CatalogUnavailable(
            f"{about}: the catalog refuses: {said}", "Look at the lake's catalog section; it names who asks."
        )
    if family in ("requests", "urllib3", "botocore", "thrift", "hive_metastore") or _is_rest(error):
        return CatalogUnavailable(f"{about}: the catalog does not answer: {said}", "lakewarden lake doctor tells more.")
    if isinstance(error, FileNotFoundError):
        return BrokenTable(f"{about}: a file it needs is not there: {said}", "Was it removed by hand, or moved?")
    if isinstance(error, PermissionError) or _is_read_only(error):
        return StorageUnavailable(f"{about}: the storage cannot be written or read: {said}", "Look at its permissions.")
    if isinstance(error, OSError):
        return StorageUnavailable(f"{about}: the storage does not answer: {said}", "lakewarden lake doctor tells more.")
    if family in ("pydantic", "pydantic_core", "json") or _is_unreadable_metadata(error):
        return BrokenTable(f"{about}: its metadata cannot be read: {said}", "The file is corrupt, or not Iceberg's.")
    return None


def first_line(error: BaseException) -> str:
    """The first line of a message, without the statement or link that libraries append."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = lines[0] if lines else type(error).__name__
    return said[:300]


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
