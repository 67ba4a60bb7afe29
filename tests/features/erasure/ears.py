"""Hears all that an installation says: answers, logs, its control database, Spark's plans, arguments of processes.

What is heard is searched for values in the spellings that they may come in: plain, as in addresses, in JSON, base64
and hexadecimal. Packed columns are unpacked first.
"""

from __future__ import annotations

import base64
import json
import re
import threading
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote, quote_plus

from sqlalchemy import create_engine, inspect, text


def spellings(value: str) -> set[bytes]:
    """How a value may be written."""
    plain = value.encode()
    whole = {plain, quote(value, safe="").encode(), quote_plus(value).encode(), json.dumps(value)[1:-1].encode()}
    in_base64 = {  # whatever stands before it
        base64.b64encode(b"x" * before + plain)[4 if before else 0 :].rstrip(b"=")[:-1] for before in (0, 1, 2)
    }
    return {*whole, *in_base64, plain.hex().encode(), plain.hex().upper().encode()}


class Ears:
    """Keeps what was said, each with where."""

    def __init__(self) -> None:
        self._heard: list[tuple[str, bytes]] = []

    def hear(self, where: str, said: str | bytes) -> None:
        self._heard.append((where, said.encode() if isinstance(said, str) else said))

    def files(self, where: str, *folders: Path) -> None:
        """Whatever is in files."""
        for file in (file for folder in folders for file in sorted(folder.rglob("*")) if file.is_file()):
            self.hear(f"{where}: {file.name}", file.read_bytes())

    def database(self, url: str, but: Iterable[str] = ()) -> None:
        """Every row of every table of a control database, but for some columns and rows, named table.column."""
        engine = create_engine(url)
        with engine.connect() as connection:
            for table in inspect(engine).get_table_names():
                for row in connection.execute(text(f'SELECT * FROM "{table}"')).mappings():
                    kind = f"{table}:{row.get('kind', '')}"
                    for column, value in row.items():
                        if value is not None and f"{table}.{column}" not in but and kind not in but:
                            self.hear(f"control database: {table}.{column}", _unpacked(value))
        engine.dispose()

    def said(self, values: Iterable[str]) -> list[str]:
        """Where one of the values was said."""
        wanted = {spelling for value in values for spelling in spellings(value)}
        return [
            f"{where}: …{heard[max(heard.find(spelling) - 80, 0) :][:200]!r}"
            for where, heard in self._heard
            for spelling in wanted
            if spelling in heard
        ]

    def matches(self, pattern: re.Pattern[str]) -> list[str]:
        """Where something was said."""
        texts = ((where, heard.decode(errors="replace")) for where, heard in self._heard)
        return [f"{where}: …{found[0]!r}" for where, text in texts for found in pattern.finditer(text)]

    def __len__(self) -> int:
        return len(self._heard)

    def places(self) -> set[str]:
        return {where for where, _ in self._heard}


def _unpacked(value: object) -> bytes:
    if isinstance(value, memoryview | bytes):
        packed = bytes(value)
        try:
            return packed + zlib.decompress(packed)
        except zlib.error:
            return packed
    return str(value).encode()


class Processes:
    """The arguments of all processes below this one, looked at again and again."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._ended = threading.Event()
        self.seen: set[bytes] = set()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Processes:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(0.02):
            self.seen.update(_arguments(self._root))


def _arguments(root: int) -> Iterator[bytes]:
    """What the processes below one were started with."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                parents[int(folder.name)] = int(fields[1])
            except (OSError, ValueError, IndexError):
                continue
    below = {root}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    for pid in below - {root}:
        try:
            yield (Path("/proc") / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            continue
