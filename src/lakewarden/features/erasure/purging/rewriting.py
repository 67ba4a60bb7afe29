"""Rewrites the files of a purge without the erased rows: data files on Spark, equality delete files here."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakewarden.engine.commit.abandoned_files import staging_folder
from lakewarden.engine.files.unreachable import is_own
from lakewarden.engine.files.written_files import layout_for
from lakewarden.engine.history.replacement import Replacement
from lakewarden.engine.kernel.messages import Drop
from lakewarden.engine.rewrite.equality_deletes import without_keys
from lakewarden.engine.rewrite.single_files import RewrittenFile
from lakewarden.engine.rows.keys import widest
from lakewarden.features.erasure.purging.intent import Intent, NewFile, OldFile
from lakewarden.features.shared.file_sizes import policy_of

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.files.live_files import LiveFile
    from lakewarden.engine.rows.search import Searched
    from lakewarden.engine.storage.storage import StoredFiles
    from lakewarden.lifecycle.action import Action
    from lakewarden.lifecycle.ground import Writer
    from lakewarden.records.erasure import HiddenKey

_READERS = 8
_PIECE = 1 << 20


@dataclass(frozen=True)
class Rewritten:
    """The replaced and new files. Files on no branch or tag are not rewritten; old files are the table's own."""

    replacements: Mapping[str, Replacement] = field(default_factory=dict)
    obsolete: frozenset[str] = frozenset()
    old_files: tuple[OldFile, ...] = ()
    new_files: tuple[NewFile, ...] = ()
    rows_dropped: Mapping[str, int] = field(default_factory=dict)

    def intent(self) -> Intent:
        return Intent(
            files={file.path: file for file in self.old_files},
            new_files={file.path: file for file in self.new_files},
            rows_dropped=self.rows_dropped,
        )


def rewrite(action: Action, lake: Writer, table: Table, keys: Sequence[HiddenKey], found: Searched) -> Rewritten:
    """Rewrite every file with rows of the keys that a ref references, once each."""
    name = lake.tables.name(action.subject)
    dirty = {*found.snapshots, *found.tainted}
    heads = {ref.snapshot_id for ref in table.metadata.refs.values() if ref.snapshot_id in dirty}
    data, deletes = lake.files.across(table, [s for s in table.metadata.snapshots if s.snapshot_id in heads])
    held = [data[path] for path in sorted(found.matches) if path in data]
    wanted = [file for file in held if found.matches[file.path].matching < file.rows]
    masks = [deletes[path] for path in sorted(found.matches) if path in deletes]
    folder = f"{staging_folder(table, lake.stamp)}/{secrets.token_hex(4)}"
    policy = policy_of(lake.settings, name, table.metadata.properties, {})
    layout = layout_for(table, policy.target, "full", policy.task_memory_mb << 20, policy.delta_encoding)
    written: dict[str, RewrittenFile] = {}
    if wanted:
        written = lake.rewriter(name.lake).rewrite_each(
            table,
            wanted,
            _drops(keys),
            replace(layout, schema=None),
            folder,
            lambda done, all: lake.progress(done, all, "bytes rewritten"),
        )
    written |= _emptied(
        lake.storage(name.lake), [file for file in held if found.matches[file.path].matching >= file.rows]
    )
    for delete in masks:
        written[delete.path] = without_keys(table, delete, keys, lake.storage(name.lake), folder)
    matches = found.matches
    return Rewritten(
        replacements={path: Replacement(path, made.file, made.dropped) for path, made in written.items()},
        obsolete=frozenset(found.matches.keys() - written.keys()),
        old_files=tuple(
            OldFile(path, matches[path].content, matches[path].bytes, made.sha256_before)
            for path, made in written.items()
            if is_own(table, path)
        ),
        new_files=tuple(
            NewFile(made.file.file_path, made.file.file_size_in_bytes, made.sha256_after or "", path)
            for path, made in written.items()
            if made.file is not None
        ),
        rows_dropped={path: made.rows_dropped for path, made in written.items() if path in data},
    )


def _emptied(storage: StoredFiles, files: Sequence[LiveFile]) -> dict[str, RewrittenFile]:
    """Files without remaining rows: they are not replaced, and only read for the hash in certificates."""

    def emptied(file: LiveFile) -> RewrittenFile:
        return RewrittenFile(file.path, None, file.rows, file.rows, (), _sha256(storage, file.path), None)

    with ThreadPoolExecutor(_READERS, thread_name_prefix="hash") as readers:
        return {made.path: made for made in readers.map(emptied, files)}


def _sha256(storage: StoredFiles, path: str) -> str:
    digest = hashlib.sha256()
    with storage.open(path) as stream:
        while piece := stream.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def _drops(keys: Sequence[HiddenKey]) -> list[Drop]:
    from lakewarden.engine.kernel.task import pack

    return [Drop(key.field_id, pack(widest(key.kind, key.values))) for key in keys]
