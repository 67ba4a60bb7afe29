"""Searches one object for a proof of erasure: opens it, determines its format, and searches each part of it."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from lakewarden.engine.proof import avro, documents, parquet
from lakewarden.engine.proof.compressed import Joined, NotLookedInto, packed_form, unpacked
from lakewarden.engine.proof.objects import Reached, StoredObject, form_of, open_object
from lakewarden.engine.proof.texts import Pile, Texts, in_doubt
from lakewarden.engine.proof.wanted import Trace, WantedKey
from lakewarden.errors import LakewardenError

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

    from lakewarden.engine.proof.byte_search import Hit
    from lakewarden.engine.storage.storage import StoredFiles

_BEGINNING = 8
_MOST_HITS = 1000  # matches as bytes in one object
_LARGEST_DOCUMENT = 1 << 30
_SMALL = 4 << 20


@dataclass(frozen=True)
class Looked:
    """The result for one object."""

    found: StoredObject
    kind: str
    is_live: bool
    traces: Sequence[Trace] = ()
    problem: str = ""
    """Why it could not be read. Never contains a decoder's message, which may quote the content."""


class ObjectReader:
    """Searches objects of one table. Thread-safe."""

    def __init__(
        self,
        metadata: TableMetadata,
        keys: Sequence[WantedKey],
        texts: Texts,
        storage: StoredFiles,
        count_read: Callable[[int], None],
    ) -> None:
        self._metadata = metadata
        self._keys = keys
        self._texts = texts
        self._storage = storage
        self._count_read = count_read

    def look(self, found: StoredObject, reached: Reached) -> Looked:
        """Search an object. Problems are part of the result, unless the object is gone by now."""
        is_live = not found.is_earlier and found.path in reached.files
        name = self._name(found.path)
        if not found.bytes:
            return Looked(found, "empty", is_live, name)
        try:
            with open_object(self._storage, found) as source:
                kind, traces = self._content(source, found, is_live)
        except (KeyboardInterrupt, _Stopped):
            raise
        except LakewardenError as error:
            gone = found.version is None and self._storage.look([found.path])[found.path] is None
            problem = "" if gone else f"storage did not return it ({error.code})"
            return Looked(found, "gone" if gone else "other", is_live, () if gone else name, problem)
        except NotLookedInto as error:
            return Looked(found, "other", is_live, name, str(error))
        except Exception as error:  # noqa: BLE001 - decoders raise anything on damaged files
            problem = f"it is damaged, or not of the format it begins with ({type(error).__name__})"
            return Looked(found, "other", is_live, name, problem)
        return Looked(found, kind, is_live, [*name, *traces])

    def _name(self, path: str) -> list[Trace]:
        pile = Pile(self._texts)
        return [*pile.path(path, "name"), *pile.end()]

    def _content(self, source: io.BufferedReader, found: StoredObject, is_live: bool) -> tuple[str, list[Trace]]:
        beginning = source.peek(_BEGINNING)[:_BEGINNING]
        match form_of(beginning):
            case "parquet":
                return self._parquet(source, found, is_live)
            case "encrypted":
                raise NotLookedInto("it is encrypted")
            case "avro":
                file = avro.opened(source)
                return file.kind, list(avro.look(file, self._keys, self._texts, self._metadata))
            case "puffin":
                return "statistics", list(documents.look_at_puffin(source, found.bytes, self._texts, self._keys))
            case "orc":
                return "data", [*self._bytes(source, self._count_read), *self._orc(source)]
            case "json":
                return self._document(source, self._count_read)
            case "gzip":
                return self._gzip(source)
            case _:
                _check_not_packed(beginning, found.path)
                return "other", self._bytes(source, self._count_read)

    def _parquet(self, source: io.BufferedReader, found: StoredObject, is_live: bool) -> tuple[str, list[Trace]]:
        import pyarrow as pa

        if found.bytes <= _SMALL:  # read once for both searches
            content = source.read()
            self._count_read(len(content))
            hits = self._texts.needles.within(content)[:_MOST_HITS]
            file: Any = pa.BufferReader(content)
        else:
            hits = list(islice(self._texts.needles.stream(source, self._count_read), _MOST_HITS))
            file = self._storage.open(found.path) if found.version is None else pa.PythonFile(source, mode="r")
        too_many = list(_too_many(hits))
        traces, spans, is_deletes = parquet.look(file, self._keys, self._texts, by_name=not is_live)
        if traces:  # decoded values are not reported again as bytes
            hits = [hit for hit in hits if not any(hit.offset in span for span in spans)]
        traces += self._placed(file, hits, bool(traces))
        traces += too_many
        return "deletes" if is_deletes else "data", traces

    def _placed(self, file: Any, hits: Sequence[Hit], only_in_columns: bool) -> Iterator[Trace]:
        for hit in hits:
            column = parquet.column_at(file, hit.offset)
            if column:
                yield in_doubt(hit, f"bytes of column {column}")
            elif not only_in_columns:
                yield in_doubt(hit, "bytes")

    def _gzip(self, source: io.BufferedReader) -> tuple[str, list[Trace]]:
        inside = unpacked(source, self._count_read)
        beginning = inside.peek(_BEGINNING)[:_BEGINNING]
        match form_of(beginning):
            case "json":
                return self._document(inside, _nothing)
            case "other":
                _check_not_packed(beginning)
                return "other", self._bytes(inside, _nothing)
            case form:
                raise NotLookedInto(f"it is {form} compressed with gzip, which is not searched")

    def _document(self, source: io.BufferedReader, count_read: Callable[[int], None]) -> tuple[str, list[Trace]]:
        content = source.read(_LARGEST_DOCUMENT)
        count_read(len(content))
        traces = None if source.peek(1) else documents.look_at_json(content, self._texts)
        if traces is None:
            return "other", self._found(self._texts.needles.stream(Joined(content, source)))
        return "metadata", list(traces)

    def _orc(self, source: io.BufferedReader) -> Iterator[Trace]:
        """pyarrow does not expose field ids of ORC files, so columns are matched by name."""
        import pyarrow as pa
        import pyarrow.compute as pc
        from pyarrow import orc

        source.seek(0)
        file = orc.ORCFile(pa.PythonFile(source, mode="r"))
        for key in self._keys:
            for column in parquet.columns_of(file.schema, key, by_name=True):
                rows = 0
                for stripe in range(file.nstripes):
                    values = file.read_stripe(stripe, columns=[column.path]).column(0)
                    if column.names[1:]:
                        values = pc.struct_field(values, list(column.names[1:]))
                    rows += pc.sum(parquet.matches(values, key)).as_py() or 0
                if rows:
                    yield Trace(f"column {column.path}, {rows} {'row' if rows == 1 else 'rows'}")

    def _bytes(self, source: io.BufferedReader, count_read: Callable[[int], None]) -> list[Trace]:
        return self._found(self._texts.needles.stream(source, count_read))

    def _found(self, hits: Iterator[Hit]) -> list[Trace]:
        some = list(islice(hits, _MOST_HITS))
        return [*(in_doubt(hit, "bytes") for hit in some), *_too_many(some)]


def _check_not_packed(beginning: bytes, path: str = "") -> None:
    if form := packed_form(beginning, path):
        raise NotLookedInto(f"it is compressed with {form}, which is not searched")


def _nothing(read: int) -> None:
    """For compressed content, whose bytes were counted before."""


def _too_many(hits: Sequence[Hit]) -> Iterator[Trace]:
    """If there are more matches than were examined, they cannot all be explained by longer values that stay."""
    if len(hits) >= _MOST_HITS:
        yield Trace(f"bytes, {_MOST_HITS:,} or more times")


class _Stopped(Exception):
    """Ends a thread whose result is no longer needed."""


def stop() -> None:
    raise _Stopped
