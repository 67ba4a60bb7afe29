"""Connections of both kinds on a real server. Covers `features/sequence/session.py`."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from lakewarden.config import SequenceSettings
from lakewarden.errors import (
    ConfigProblem,
    DatabaseBusy,
    DatabaseUnavailable,
    LeaseLost,
    StatementFailed,
    UnfitDatabase,
)
from lakewarden.features.sequence import connection
from lakewarden.features.sequence.connection import Altering, Reading, lock_name, server_of, text_literal
from tests.cases import in_soak
from tests.features.sequence.conftest import ORDERS
from tests.services.mariadb import PASSWORD, Shop


def unfenced() -> None:
    pass


class TestReading:
    def test_values_are_text_in_both_ways(self, sequences: SequenceSettings, shop: Shop) -> None:
        with Reading(sequences) as db:
            odd = "a<b> & 'c' \"ü\" \\"
            assert db.rows(f"SELECT 1 AS one, NULL AS nothing, '' AS blank, {text_literal(odd)} AS odd") == [
                {"one": "1", "nothing": None, "blank": "", "odd": odd}
            ]
            assert db.rows("SELECT 1 FROM DUAL WHERE FALSE") == []
            assert db.rows("SELECT 2 AS two UNION SELECT 3;") == [{"two": "2"}, {"two": "3"}]
            assert db.database == shop.name and db.server

    def test_it_cannot_write(self, sequences: SequenceSettings, shop: Shop) -> None:
        shop.run(ORDERS)
        for statement in ("INSERT INTO orders VALUES (1, NULL)", "ALTER TABLE orders ADD x INT", "DROP TABLE orders"):
            with Reading(sequences) as db, pytest.raises(StatementFailed, match="READ ONLY transaction"):
                db.rows(statement)
        assert shop.run("SELECT COUNT(*) FROM orders") == [(0,)]

    def test_it_waits_a_second_for_locks_and_has_no_other_limit(self, sequences: SequenceSettings, shop: Shop) -> None:
        """Whatever the server's own limits are."""
        shop.run("SET GLOBAL max_statement_time = 0.5")
        try:
            with Reading(sequences) as db:
                (found,) = db.rows("SELECT @@lock_wait_timeout, @@innodb_lock_wait_timeout, @@max_statement_time")
                assert [float(str(value)) for value in found.values()] == [1, 1, 0]
        finally:
            shop.run("SET GLOBAL max_statement_time = 0")

    def test_a_server_is_known_by_its_id_or_its_name(self, sequences: SequenceSettings, shop: Shop) -> None:
        """Servers before 10.11.9 have no id."""
        with Reading(sequences) as db:
            assert [(db.server,)] == shop.run("SELECT @@server_uid")
        about = {"uid": None, "host": "db1", "port": "3306", "id": "7"}
        assert server_of(about) == "db1:3306/7" and server_of({**about, "uid": "x"}) == "x"

    def test_both_ways_lead_to_the_same_server(self, shop: Shop) -> None:
        with (
            Reading(SequenceSettings.model_validate({"dburl": shop.dburl})) as one,
            Reading(SequenceSettings.model_validate({"mariadb": shop.client})) as other,
        ):
            assert (one.server, one.database) == (other.server, other.database)

    def test_it_can_be_used_after_an_error(self, sequences: SequenceSettings) -> None:
        with Reading(sequences) as db:
            with pytest.raises(StatementFailed, match="nowhere"):
                db.rows("SELECT * FROM nowhere")
            assert db.rows("SELECT 1 AS one") == [{"one": "1"}]
            with pytest.raises(StatementFailed, match="READ ONLY"):
                db.rows("CREATE TABLE x (id INT)")

    def test_a_server_that_does_not_answer(self, shop: Shop) -> None:
        gone = shop.dburl.replace(str(shop.server.port), "1")
        with pytest.raises(DatabaseUnavailable), Reading(SequenceSettings.model_validate({"dburl": gone})):
            pass
        with (
            pytest.raises(DatabaseUnavailable, match="cannot be started"),
            Reading(SequenceSettings.model_validate({"mariadb": "/nowhere/mariadb"})),
        ):
            pass

    def test_without_a_database(self, shop: Shop, tmp_path: Path) -> None:
        script = tmp_path / "client.sh"
        script.write_text(Path(shop.client).read_text().replace(f' "$@" {shop.name}', ' "$@"'))
        script.chmod(0o755)
        with pytest.raises(ConfigProblem, match="no database"), Reading(SequenceSettings(mariadb=str(script))):
            pass
        with pytest.raises(ConfigProblem, match="no database is configured"), Reading(SequenceSettings()):
            pass

    def test_the_password_is_in_no_error_and_no_process_list(self, shop: Shop) -> None:
        wrong = shop.dburl.replace("warden:", "nobody:")
        with (
            pytest.raises(DatabaseUnavailable) as refused,
            Reading(SequenceSettings.model_validate({"dburl": wrong})),
        ):
            pass
        assert PASSWORD not in str(refused.value) and "s3cret" not in repr(refused.value)
        with Reading(SequenceSettings.model_validate({"mariadb": shop.client})):
            listed = subprocess.run(["ps", "-ewwo", "args"], capture_output=True, text=True, check=True).stdout
        assert f"{shop.name}.cnf" in listed and "s3cret" not in listed


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("8.0.36", "not MariaDB"),
        ("8.4.0-mysql", "not MariaDB"),
        ("10.6.16-MariaDB-log", "MariaDB 10.6.16"),
        ("5.5.5-10.5.1-MariaDB", "10.5.1"),
    ],
)
def test_servers_that_are_refused(version: str, reason: str) -> None:
    with pytest.raises(UnfitDatabase, match=reason):
        connection._check_version(version)


@pytest.mark.parametrize("version", ["10.11.6-MariaDB-0+deb12u1", "11.4.2-MariaDB", "5.5.5-10.11.2-MariaDB"])
def test_servers_that_are_supported(version: str) -> None:
    connection._check_version(version)


class TestAltering:
    def test_it_alters_after_the_proof_and_behind_the_fence(self, sequences: SequenceSettings, shop: Shop) -> None:
        shop.run(ORDERS)
        passed: list[str] = []
        with Altering(sequences, "orders", lambda: passed.append("fence")) as db:
            assert db.alter("ALTER TABLE orders WAIT 1 ADD x INT", lambda _: passed.append("proof")) < 5
            assert passed == ["proof", "fence"]
            db.alter_locked(("orders",), "ALTER TABLE orders COMMENT 'x'", lambda _: passed.append("proof"))
        assert passed[2:] == ["fence", "proof", "fence"]  # nobody waits for a control database that does not answer
        assert len(shop.run("SHOW COLUMNS FROM orders")) == 3

        def lost() -> None:
            raise LeaseLost("lost")

        with Altering(sequences, "orders", lost) as db, pytest.raises(LeaseLost):
            db.alter("ALTER TABLE orders WAIT 1 ADD y INT")
        assert len(shop.run("SHOW COLUMNS FROM orders")) == 3

    @pytest.mark.parametrize("seconds", [2.5, *in_soak(15.0)])
    def test_a_lock_is_outwaited(self, sequences: SequenceSettings, shop: Shop, seconds: float) -> None:
        """By short waits with pauses, in which the writer's transaction goes on; the proof is repeated each time."""
        shop.run(ORDERS)
        proofs: list[float] = []
        with shop.connect() as writer:
            writer.begin()
            writer.cursor().execute("INSERT INTO orders VALUES (1, NULL)")
            release = threading.Timer(seconds, writer.commit)
            release.start()
            with Altering(sequences, "orders", unfenced) as db:
                took = db.alter("ALTER TABLE orders WAIT 1 ADD x INT", lambda _: proofs.append(time.monotonic()), 1.0)
            release.join()
        assert len(proofs) > 1 and took < seconds

    def test_a_lock_held_too_long_ends_in_an_error(
        self, sequences: SequenceSettings, shop: Shop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection, "PATIENCE_SECONDS", 1.5)
        shop.run(ORDERS)
        with shop.connect() as writer:
            writer.begin()
            writer.cursor().execute("INSERT INTO orders VALUES (1, NULL)")
            with (
                Altering(sequences, "orders", unfenced) as db,
                pytest.raises(DatabaseBusy, match=r"locked for 1.5 seconds: Lock wait timeout exceeded"),
            ):
                db.alter("ALTER TABLE orders WAIT 1 ADD x INT")
            with (
                Altering(sequences, "orders", unfenced) as db,
                pytest.raises(
                    DatabaseBusy, match=r"locked for 1.5 seconds: no attempt to run a statement ended in time"
                ),
            ):
                db.alter("ALTER TABLE orders WAIT 1 ADD x INT", most_seconds=0.1)

    def test_two_never_alter_a_table_at_once(
        self, sequences: SequenceSettings, shop: Shop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whether or not they share a control database."""
        monkeypatch.setattr(connection, "PATIENCE_SECONDS", 1.5)
        with Altering(sequences, "orders", unfenced):
            with (
                pytest.raises(DatabaseBusy, match=rf"another Lakewarden alters {shop.name}.orders"),
                Altering(sequences, "orders", unfenced),
            ):
                pass
            with Altering(sequences, "customers", unfenced):
                pass
        with Altering(sequences, "orders", unfenced):
            pass

    def test_a_statement_that_outlives_its_client_keeps_others_out(
        self, sequences: SequenceSettings, shop: Shop, way: str
    ) -> None:
        """The server goes on after a kill, and holds the lock until the statement has ended."""
        code = (
            "import sys\nfrom lakewarden.config import SequenceSettings\n"
            "from lakewarden.features.sequence.connection import Altering\n"
            "settings = SequenceSettings.model_validate({sys.argv[1]: sys.stdin.readline().strip()})\n"
            "with Altering(settings, 'orders', lambda: None) as db:\n    db.alter('DO SLEEP(3)')"
        )
        process = subprocess.Popen([sys.executable, "-c", code, way], stdin=subprocess.PIPE, text=True)
        assert process.stdin is not None
        process.stdin.write(f"{shop.dburl if way == 'dburl' else shop.client}\n")
        process.stdin.close()
        name = text_literal(lock_name(shop.name, "orders"))
        running = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO = 'DO SLEEP(3)'"
        while shop.run(running) == [(0,)]:
            assert process.poll() is None
        process.kill()
        process.wait()
        assert shop.run(f"SELECT IS_USED_LOCK({name}) IS NOT NULL") == [(1,)]
        with Altering(sequences, "orders", unfenced):
            assert shop.run(running) == [(0,)]

    def test_a_read_only_server_is_refused(self, sequences: SequenceSettings, shop: Shop) -> None:
        shop.run("SET GLOBAL read_only = 1")
        try:
            with Reading(sequences) as db:
                assert db.is_read_only_server
            with pytest.raises(UnfitDatabase, match="read-only"), Altering(sequences, "orders", unfenced):
                pass
        finally:
            shop.run("SET GLOBAL read_only = 0")

    def test_long_names_have_locks_too(self) -> None:
        names = {lock_name("d" * 60, "t" * length) for length in (1, 2, 60, 64)}
        assert len(names) == 4 and all(len(name) <= 64 for name in names)
