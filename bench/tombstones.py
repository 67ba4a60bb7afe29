"""Whether requests for erasure stay linear: a hundred thousand values beside a million, in the same run.

Times are of the processor, so that a busy machine does not tell another story. What takes the control database is
measured on SQLite: registering values in one request and in many, loading what is hidden, closing, knowing again.

    .venv/bin/python bench/tombstones.py [--values 100000] [--times 10]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from lakewarden.erased_values import ErasedValues
from lakewarden.records.erasure import ErasureRequest, ErasureState, KeyAsked
from lakewarden.state.database import Database
from lakewarden.state.tombstones import SqlTombstones

NOW = datetime.now(UTC)
EACH = 1_000  # values of a request among many
KEY = KeyAsked("main.crm.people", "uuid", "email", 2, "string")
MOST = 1.5  # how much worse than in proportion it may be


def request(number: int) -> ErasureRequest:
    return ErasureRequest(f"er-{number:06}", NOW, "bench", "", "", None, NOW, (KEY,), 0)


def mails(start: int, count: int) -> list[str]:
    return [f"person-{number}@example.org" for number in range(start, start + count)]


def seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def measure(folder: Path, values: int) -> dict[str, float]:
    """What everything takes with so many values."""
    one = SqlTombstones(Database(f"sqlite:///{folder}/one-{values}.db"))
    many = SqlTombstones(Database(f"sqlite:///{folder}/many-{values}.db"))
    all_values, others = mails(0, values), mails(values, values)
    ids = [f"er-{number:06}" for number in range(values // EACH)]

    def add_many() -> None:
        for number in range(values // EACH):
            many.add(request(number), {0: iter(all_values[number * EACH : (number + 1) * EACH])})

    took = {
        "request, all values in one": seconds(lambda: one.add(request(0), {0: iter(all_values)})),
        "requests of 1,000 values each": seconds(add_many),
        "load what is hidden": seconds(lambda: one.hidden("uuid")),
        "load what is hidden by many": seconds(lambda: many.hidden("uuid", ids)),
        "list many requests": seconds(lambda: many.list([ErasureState.OPEN], "uuid")),
        "close one": seconds(lambda: one.move("er-000000", ErasureState.CLOSED, NOW)),
        "close many": seconds(lambda: many.close(ids, NOW, ErasedValues.of([], {}, []))),
    }
    known = many.recognizer("uuid")
    took["load digests of many"] = seconds(lambda: known.find(KEY.field_id, KEY.kind, ["nobody"]))
    took["look up as many others"] = seconds(lambda: known.find(KEY.field_id, KEY.kind, others))
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--values", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=10)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        measure(Path(place), EACH)  # imports, and the database's schema
        few = measure(Path(place), given.values)
        many = measure(Path(place), given.values * given.times)
    print(f"{'':32}{given.values:>12,}{given.values * given.times:>12,}   ratio (linear: {given.times})")
    for name, took in few.items():
        print(f"{name:32}{took:>10.2f} s{many[name]:>10.2f} s{many[name] / took:>8.1f}")
    whole = sum(many.values()) / sum(few.values())
    print(f"{'all of it':32}{sum(few.values()):>10.2f} s{sum(many.values()):>10.2f} s{whole:>8.1f}")
    sys.exit(whole > MOST * given.times)


if __name__ == "__main__":
    main()
