"""How long a writer waits while `sequence maintain` alters its table, on a real MariaDB.

A writer inserts one row after another, another one holds a transaction open for two seconds at a time, so that the
statements meet locks. Prints the longest and the 99.9th percentile of inserts with and without maintenance beside
them, and beside statements that wait for their lock for up to six seconds.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))

from lakewarden import Warden
from tests.services.mariadb import MariaDb, Shop, started

SECONDS = 20


def create(shop: Shop) -> None:
    """A table that has only one empty partition, so that each run of `maintain` has something to do."""
    day = datetime.now(UTC) - timedelta(days=300)
    parts = [(f"p_{day + timedelta(days=30 * n):%Y%m%d}", f"({(n + 1) * 100_000})") for n in range(10)]
    listed = ", ".join(f"PARTITION {name} VALUES LESS THAN {bound}" for name, bound in [*parts, ("tail", "MAXVALUE")])
    shop.run(
        "DROP TABLE IF EXISTS orders",
        f"CREATE TABLE orders (id BIGINT AUTO_INCREMENT PRIMARY KEY, x INT) PARTITION BY RANGE (id) ({listed})",
        "INSERT INTO orders (id) SELECT seq * 1000 FROM seq_1_to_950",
    )


@contextmanager
def others(shop: Shop) -> Iterator[list[float]]:
    """A writer whose inserts are timed, and one that holds locks; both end with the block."""
    took: list[float] = []
    over = threading.Event()

    def write() -> None:
        with shop.connect() as connection, closing(connection.cursor()) as cursor:
            while not over.is_set():
                began = time.monotonic()
                cursor.execute("INSERT INTO orders (x) VALUES (1)")
                took.append(time.monotonic() - began)
                time.sleep(0.001)

    def hold() -> None:
        with shop.connect() as connection, closing(connection.cursor()) as cursor:
            while not over.is_set():
                connection.begin()
                cursor.execute("SELECT COUNT(*) FROM orders")
                over.wait(2)
                connection.commit()
                over.wait(1)

    threads = [threading.Thread(target=each) for each in (write, hold)]
    for thread in threads:
        thread.start()
    time.sleep(1)
    took.clear()
    try:
        yield took
    finally:
        over.set()
        for thread in threads:
            thread.join()


def shown(what: str, took: list[float], runs: int) -> None:
    took.sort()
    longest, most = took[-1], took[int(len(took) * 0.999)]
    print(f"{what:<28}{runs:>6}{len(took):>10,}{most * 1000:>12,.0f} ms{longest * 1000:>12,.0f} ms")


def maintained(warden: Warden) -> Callable[[], int]:
    def run() -> int:
        runs, deadline, settings = 0, time.monotonic() + SECONDS, warden.ground.settings
        assert settings.sequences is not None
        while time.monotonic() < deadline:  # each run has to add one more partition
            sequences = settings.sequences.model_copy(update={"num_empty": runs + 2})
            warden.ground.settings = settings.model_copy(update={"sequences": sequences})
            planned = warden.sequence.maintain()
            planned.apply()
            runs += len(planned.plan.actions)
        return runs

    return run


def patient(shop: Shop) -> Callable[[], int]:
    """Statements as scripts send them: each waits for its lock for up to six seconds."""

    def run() -> int:
        for number in range(6):
            shop.run(f"ALTER TABLE orders WAIT 6 COMMENT '{number}'")
            time.sleep(1.3)
        return 6

    return run


def main() -> None:
    with started() as server, tempfile.TemporaryDirectory() as folder:
        measure(server, Path(folder))


def measure(server: MariaDb, folder: Path) -> None:
    shop = server.new_database()
    settings = {"sequences": {"dburl": shop.dburl, "tables": {"orders": {}}}}
    (folder / "lakewarden.yaml").write_text(yaml.safe_dump(settings))
    print(f"{'beside the writer':<28}{'ALTERs':>6}{'inserts':>10}{'99.9 %':>15}{'longest':>15}")
    with Warden.open(folder) as warden:
        for what, work in (
            ("nothing", lambda: time.sleep(SECONDS / 2) or 0),
            ("sequence maintain", maintained(warden)),
            ("ALTER TABLE … WAIT 6", patient(shop)),
        ):
            create(shop)
            with others(shop) as took:
                runs = work()
            shown(what, took, runs)
            if what == "sequence maintain" and took[-1] > 2:
                sys.exit(f"an insert waited {took[-1]:.1f} s: the limit is 2 s")


if __name__ == "__main__":
    main()
