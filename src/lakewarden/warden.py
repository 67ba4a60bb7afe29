"""The composition root, and the Python API.

    from lakewarden import Warden
    from lakewarden.features.version.tag import Tag

    warden = Warden.open("lakewarden.yaml")
    warden.version.list("sales.orders", limit=5)                    # a question returns its answer
    warden.plan(Tag(version="sales.orders", name="v1")).apply()     # an operation has a plan, then a report
    warden.version.tag("sales.orders", "v1").apply()                # the same with less typing

Only this module assembles configuration, engine, control database and runner. Each part is created when first used: a
question about metadata opens no database and starts no JVM.
"""

from __future__ import annotations

import secrets
import socket
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pydantic import ValidationError

from lakewarden import config, registry
from lakewarden.config import Environment, Settings
from lakewarden.display import Listing
from lakewarden.engine.base.own_logs import OwnLogs
from lakewarden.engine.base.quoting import identifier
from lakewarden.engine.catalog.catalogs import Catalogs
from lakewarden.engine.catalog.tables import Resolved, Tables
from lakewarden.engine.commit.abandoned_files import sweep
from lakewarden.engine.commit.change import Commits, Desk, RoutedCommits
from lakewarden.engine.commit.procedures import Procedures
from lakewarden.engine.commit.staging import Staging
from lakewarden.engine.files.live_files import Files
from lakewarden.engine.files.manifests import Manifests
from lakewarden.engine.rewrite.driver import Rewriter
from lakewarden.engine.rows.read import Rows
from lakewarden.engine.spark.session import Spark
from lakewarden.engine.storage.erasure_mark import MarkProbe, refuse_foreign_mark
from lakewarden.engine.storage.storage import Storage, StoredFiles, Stores
from lakewarden.errors import BadValue, did_you_mean
from lakewarden.lifecycle import failpoints
from lakewarden.lifecycle.basics import ActionProgress, Clock, Fence, Probe, Stamp
from lakewarden.lifecycle.desk import ControlDesk
from lakewarden.lifecycle.journal import Journal
from lakewarden.lifecycle.leases import Leases
from lakewarden.lifecycle.memory import Kept, Memory
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.processes import this_process
from lakewarden.lifecycle.progress import Watcher, unwatched
from lakewarden.lifecycle.report import Report
from lakewarden.lifecycle.request import Control, Operation, Question, Request, Setup
from lakewarden.lifecycle.runner import Runner
from lakewarden.lifecycle.signature import signature_of
from lakewarden.made_once import made_once

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.engine.comparison.compare import Comparisons
    from lakewarden.engine.comparison.new_rows import NewRows
    from lakewarden.engine.history.spark_route import SparkCleansing
    from lakewarden.engine.rewrite.exchange import Exchange
    from lakewarden.engine.spark.database_rows import DatabaseRows
    from lakewarden.engine.spark.definitions import Definitions
    from lakewarden.engine.spark.statements import TableStatements
    from lakewarden.engine.sql.batches import Batches
    from lakewarden.engine.sql.queries import Queries
    from lakewarden.features.query.statement import Engine, Queried
    from lakewarden.records.erasure import HiddenKey
    from lakewarden.state.database import Database
    from lakewarden.state.stores import StateWriter

Answer = TypeVar("Answer")


class Ground:
    """The parts of one installation, each created when first used; questions and plans read from it."""

    def __init__(self, settings: Settings, environment: Environment, clock: Clock) -> None:
        self.settings = settings
        self.environment = environment
        self.clock = clock

    @made_once
    def catalogs(self) -> Catalogs:
        return Catalogs(self.settings)

    @made_once
    def tables(self) -> Tables:
        return Tables(self.catalogs, self.settings)

    @made_once
    def manifests(self) -> Manifests:
        return Manifests()

    @made_once
    def files(self) -> Files:
        return Files(self.manifests)

    @made_once
    def spark(self) -> Spark:
        return Spark(self.settings, self.environment)

    @made_once
    def rows(self) -> Rows:
        return Rows(lambda: self.spark, self._hidden, self.files, self.storage)

    @made_once
    def comparisons(self) -> Comparisons:
        from lakewarden.engine.comparison.compare import Comparisons

        return Comparisons(lambda: self.spark, self.rows, self.files, self.settings)

    @made_once
    def queries(self) -> Queries:
        from lakewarden.engine.sql.queries import Queries

        return Queries(lambda: self.spark, self.rows)

    @made_once
    def batches(self) -> Batches:
        from lakewarden.engine.sql.batches import Batches

        return Batches(lambda: self.spark, self.rows, self.new_rows)

    @made_once
    def new_rows(self) -> NewRows:
        from lakewarden.engine.comparison.new_rows import NewRows

        return NewRows(lambda: self.spark, self.rows, lambda: self.comparisons)

    def _hidden(self, name: TableName, table: Table) -> Sequence[HiddenKey]:
        """The hidden keys of a table; an error if another control database has its requests."""
        refuse_foreign_mark(self.storage(name.lake), name, table, self._control())
        return self.state.erasure.hidden(str(table.metadata.table_uuid)) if self.database.exists() else []

    def _control(self) -> str:
        """The id of the control database in marks of tables; empty if it does not exist yet."""
        return self.state.erasure.identity() if self.database.exists() else ""

    @made_once
    def state(self) -> StateWriter:
        from lakewarden.state.stores import StateWriter

        return StateWriter(self.database)

    @made_once
    def stores(self) -> dict[str, Stores]:
        return {name: Stores(lake) for name, lake in self.settings.lakes.items()}

    def storage(self, lake: str) -> StoredFiles:
        self.settings.lake(lake)  # an error for unknown lakes
        return StoredFiles(self.stores[lake])

    def kept(self, kind: type[Kept]) -> Kept:
        return kind()

    @made_once
    def database(self) -> Database:
        from lakewarden.state.database import Database

        return Database(self.settings.state)

    @made_once
    def journal(self) -> Journal:
        from lakewarden.state.journal import SqlJournal

        return SqlJournal(self.database)

    @made_once
    def leases(self) -> Leases:
        from lakewarden.state.leases import SqlLeases

        return SqlLeases(self.database)

    @made_once
    def probes(self) -> Sequence[Probe]:
        from lakewarden.engine.spark.probe import engine_probes
        from lakewarden.state.probe import StateProbe

        shared = [name for name, lake in self.settings.lakes.items() if not lake.is_local]
        state = Probe(StateProbe(self.database, shared))
        marks = Probe(MarkProbe(self.tables, self.storage, self._control))
        engine = engine_probes(self.settings, self.environment, self.catalogs, self.spark)
        return [state, marks, *self._database_probes(), *engine]

    def _database_probes(self) -> list[Probe]:
        from lakewarden.features.sequence.probe import DatabaseProbe

        sequences = self.settings.sequences
        return [] if sequences is None else [Probe(DatabaseProbe(sequences))]


class Workbench:
    """What one action reads and writes with: parts of the ground, and commits with its stamp and behind its fence."""

    def __init__(
        self, ground: Ground, stamp: Stamp, fence: Fence, progress: ActionProgress, memory: Memory | None = None
    ) -> None:
        self._ground = ground
        self._memory = memory or Memory()
        self.stamp = stamp
        self._fence = fence
        self._progress = progress
        self.settings, self.clock = ground.settings, ground.clock
        self.tables, self.files, self.rows = ground.tables, ground.files, ground.rows
        self.journal, self.state = ground.journal, ground.state

    def kept(self, kind: type[Kept]) -> Kept:
        return self._memory.of(kind)

    def part(self, name: str) -> Workbench:
        return Workbench(self._ground, replace(self.stamp, part=name), self._fence, self._progress, self._memory)

    def progress(self, done: int, total: int, says: str = "", waits: bool = False) -> None:
        self._progress(done, total, says, waits)

    def fence(self) -> None:
        self._fence()

    @property
    def logs(self) -> OwnLogs:
        return OwnLogs(self._ground.environment.logs)

    @property
    def probes(self) -> Sequence[Probe]:
        return self._ground.probes

    @property
    def comparisons(self) -> Comparisons:
        return self._ground.comparisons

    @property
    def queries(self) -> Queries:
        return self._ground.queries

    @property
    def batches(self) -> Batches:
        return self._ground.batches

    def storage(self, lake: str) -> Storage:
        self.settings.lake(lake)
        return Storage(self._ground.stores[lake], self._fence)

    def rewriter(self, lake: str) -> Rewriter:
        own = Storage(self._ground.stores[lake])  # unfenced: it deletes only its own files, also after losing the lease
        return Rewriter(lambda: self._ground.spark, self.settings.lake(lake), own)

    def exchange(self, lake: str) -> Exchange:
        from lakewarden.engine.rewrite.exchange import Exchange

        own = Storage(self._ground.stores[lake])  # unfenced, for the same reason
        return Exchange(lambda: self._ground.spark, self.settings.lake(lake), own)

    def definitions(self, lake: str) -> Definitions:
        from lakewarden.engine.spark.definitions import Definitions

        return Definitions(self._ground.spark, self._fence, lake)

    def database_rows(self, rows: DatabaseRows) -> Callable[[SparkSession], DataFrame]:
        from lakewarden.engine.spark.database_rows import driver_jar, read

        driver = driver_jar(self.settings, self._ground.environment)
        return lambda session: read(session, rows, driver, self._ground.spark.is_remote)

    def statements(self, table: str) -> TableStatements:
        from lakewarden.engine.spark.statements import TableStatements

        return TableStatements(self._ground.spark, self._fence, self.tables.name(table))

    @cached_property
    def procedures(self) -> Procedures:
        return Procedures(self.tables, self._ground.spark, self._fence)

    @cached_property
    def spark_cleansing(self) -> SparkCleansing:
        from lakewarden.engine.history.spark_route import SparkCleansing
        from lakewarden.lifecycle.journal import known_to

        ground = self._ground
        parts = (self.tables, ground.spark, self._fence, self.stamp, ground.files, ground.storage)
        return SparkCleansing(*parts, known_to(ground.journal))

    def sweep(self, table: str) -> int:
        name = self.tables.name(table)
        self.staging.sweep(str(name))
        return sweep(self.tables.load(name), self.stamp, self.storage(name.lake))

    @cached_property
    def _desk(self) -> Desk:
        return Desk(self.tables, self._fence, self.stamp, self._ground.manifests)

    @cached_property
    def staging(self) -> Staging:
        from lakewarden.lifecycle.journal import is_over

        return Staging(self._desk, self._ground.spark, self.storage, is_over(self.journal), self.progress)

    @cached_property
    def commits(self) -> Commits:
        return RoutedCommits(self._desk, lambda: self._ground.spark, lambda change: change.needs_spark(self.tables))


class LeftOut(UserWarning):
    """Rows that a reader does not see: partitions of a view set with another schema, or of other instances."""


class Planned:
    """An operation and its plan. Nothing changes until `apply()`."""

    def __init__(self, operation: Operation, plan: Plan, warden: Warden) -> None:
        self.operation = operation
        self.plan = plan
        self._warden = warden

    def __repr__(self) -> str:
        return f"{self.plan!r}" if self.is_empty else f"{self.plan!r}\nNothing changed yet: call .apply()."

    def _repr_html_(self) -> str:
        tail = "" if self.is_empty else "<p>Nothing changed yet: call <code>.apply()</code>.</p>"
        return self.plan._repr_html_() + tail

    @property
    def is_empty(self) -> bool:
        return not self.plan.actions

    @property
    def barred(self) -> str:
        """Why it cannot be applied, as a no-op; empty if it can."""
        return self.operation.barred(self._warden.ground)

    def store(self, actor: str | None = None) -> str:
        """Store the plan for `operation apply`; returns the operation's id."""
        return self._warden.runner(actor).store(self.operation, self.plan).id

    def apply(self, wait: timedelta = timedelta(), actor: str | None = None, watch: Watcher = unwatched) -> Report:
        """Apply and verify the plan. The journal records the actor, by default the user of this process."""
        return self._warden.runner(actor, watch).start(self.operation, self.plan, wait)


class Warden:
    """One installation of Lakewarden."""

    def __init__(self, settings: Settings, environment: Environment | None = None) -> None:
        self.ground = Ground(settings, environment or Environment.read(), clock=lambda: datetime.now(UTC))
        self.path: Path | None = None
        failpoints.arm(self.ground.environment.failpoints)

    @classmethod
    def open(cls, path: str | Path | None = None) -> Warden:
        """Open an installation by its configuration file: the given one, the environment's, or the working folder's."""
        environment = Environment.read()
        found = config.find(Path(path) if path is not None else None, environment)
        warden = cls(config.load(found, environment), environment)
        warden.path = found
        return warden

    def __repr__(self) -> str:
        lakes = ", ".join(f"{name} ({lake.type})" for name, lake in self.ground.settings.lakes.items())
        return f"<Warden of {self.path or 'settings'}: {lakes}>"

    def close(self) -> None:
        """Close catalogs and the control database. Spark runs until the process ends."""
        if "catalogs" in self.ground.__dict__:
            self.ground.catalogs.close()
        if "database" in self.ground.__dict__:
            self.ground.database.close()

    def __enter__(self) -> Warden:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def runner(self, actor: str | None = None, watch: Watcher = unwatched) -> Runner:
        """A runner for one call. The default actor is the user of this process."""
        ground = self.ground
        return Runner(
            journal=ground.journal,
            leases=ground.leases,
            open_reader=lambda memory: Workbench(ground, Stamp("", "", ""), _read_only, lambda *_: None, memory),
            open_writer=lambda memory, stamp, fence, tell: Workbench(ground, stamp, fence, tell, memory),
            find_operation=registry.operation,
            clock=ground.clock,
            new_id=self._new_id,
            actor=actor or f"{ground.environment.user}@{socket.gethostname()}",
            holder=this_process(),
            lease_timeout=ground.settings.leases.timeout,
            watch=watch,
        )

    def ask(self, question: Question[Answer], actor: str | None = None) -> Answer:
        """Answer a question. One that must be recorded is not answered unless the journal has its record."""
        ground = self.ground
        with ground.tables.at_one_moment():  # the version that is recorded is the one that is read
            noted = question.noted(ground)
            if noted is not None:
                self._desk(question, self.runner(actor)).record(noted.target, noted.says, noted.request, noted.result)
                return _shown(question.ask(ground))
        return _shown(question.ask(ground))

    def plan(self, operation: Operation) -> Planned:
        return Planned(operation, operation.plan(self.ground), self)

    def steer(self, control: Control[Answer], actor: str | None = None, watch: Watcher = unwatched) -> Answer:
        desk = self._desk(control, self.runner(actor, watch))
        answer = control.act(desk)
        if control.journaled != bool(desk.recorded):
            raise TypeError(f"{desk.kind} made {len(desk.recorded)} records, but journaled is {control.journaled}")
        return _shown(answer)

    def _desk(self, request: Request, runner: Runner) -> ControlDesk:
        ground = self.ground
        return ControlDesk(
            kind=request.address().kind,
            lake=ground,
            state=ground.state,
            runner=runner,
            journal=ground.journal,
            actor=runner.actor,
            new_id=self._new_id,
            storage=lambda lake: Storage(ground.stores[lake]),
        )

    def _new_id(self) -> str:
        return f"op-{self.ground.clock():%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"

    def dataframe(self, version: str, instance: str = "global") -> DataFrame:
        """The rows of `table[@ref]` as a Spark DataFrame; of a view set, one instance with the current schema."""
        found, only, columns = self._seen(version, instance)
        frame = self.ground.rows.dataframe(found, only=only)
        return frame.select(*(identifier(column) for column in columns)) if columns else frame

    def arrow(self, version: str, instance: str = "global") -> pa.Table:
        """The same as an Arrow table in memory, without a JVM."""
        import pyarrow as pa

        found, only, columns = self._seen(version, instance)
        schema, batches = self.ground.rows.batches(found, columns=columns, only=only)
        return pa.Table.from_batches(batches, schema)

    def _seen(self, version: str, instance: str) -> tuple[Resolved, BooleanExpression | None, Sequence[str]]:
        """A version, and what a reader sees of it if it is a view set's."""
        from lakewarden.features.viewset.reading import selection

        found = self.ground.tables.resolve(version)
        seen = selection(self.ground, found, instance)
        if seen is None:
            return found, None, ()
        if seen.left_out:
            warnings.warn(seen.left_out, LeftOut, stacklevel=3)
        return found, seen.only, seen.columns

    def query(self, sql: str, engine: Engine = "duckdb") -> pd.DataFrame:
        """The rows of one SELECT. Functions in it that change something are run, and recorded in the journal."""
        found = self.queried(sql, engine)
        for note in found.notes:
            warnings.warn(note, LeftOut, stacklevel=2)
        return found.rows.to_pandas()

    def queried(
        self,
        sql: str,
        engine: Engine = "duckdb",
        plan: bool = False,
        actor: str | None = None,
        watch: Watcher = unwatched,
    ) -> Queried:
        """The same as Arrow, with notes on what was left out. With `plan`, functions only plan their changes."""
        from lakewarden.features.query.statement import run

        def operate(operation: Operation) -> tuple[Plan, Report | None]:
            planned = self.plan(operation)
            if not plan:
                return planned.plan, planned.apply(actor=actor, watch=watch)
            if not planned.is_empty:
                planned.store(actor)
            return planned.plan, None

        return run(self.ground, sql, engine, operate)

    def __getattr__(self, noun: str) -> Noun:
        name = noun.replace("_", "-")
        if noun.startswith("_") or name not in registry.nouns():
            raise AttributeError(f"a warden has no {noun}. {did_you_mean(name, registry.nouns())}".strip())
        return Noun(self, name)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(noun.replace("-", "_") for noun in registry.nouns())]


class Noun:
    """`warden.version`: its verbs are methods with the arguments of the command line."""

    def __init__(self, warden: Warden, noun: str) -> None:
        self._warden = warden
        self._noun = noun

    def __repr__(self) -> str:
        return f"<{self._noun}: {', '.join(self.__dir__())}>"

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        known = registry.verbs(self._noun)
        if verb.startswith("_") or registry.meant(self._noun, verb.replace("_", "-")) not in known:
            raise AttributeError(f"{self._noun} has no {verb}. {did_you_mean(verb, known)}".strip())
        return _method(self._warden, registry.declaration(self._noun, verb.replace("_", "-")))

    def __dir__(self) -> list[str]:
        return [verb.replace("-", "_") for verb in registry.verbs(self._noun)]


def _read_only() -> None:
    raise PermissionError("this workbench is read-only")


def _shown(answer: Answer) -> Answer:
    """The answer; a list becomes one that notebooks show as a table."""
    return cast(Answer, Listing(cast(list[Any], answer))) if type(answer) is list else answer


def _method(warden: Warden, declared: type[Request]) -> Callable[..., Any]:
    signature = signature_of(declared)

    def method(*args: Any, **kwargs: Any) -> Any:
        request = build(declared, signature.bind(*args, **kwargs).arguments)
        match request:
            case Question():
                return warden.ask(request)
            case Operation():
                return warden.plan(request)
            case Control():
                return warden.steer(request)
            case Setup():
                return request.make()

    method.__name__ = declared.address().verb.replace("-", "_")
    method.__qualname__ = f"{declared.address().noun.replace('-', '_')}.{method.__name__}"
    method.__doc__ = declared.__doc__
    method.__signature__ = signature  # type: ignore[attr-defined]
    return method


def name_of(parts: Sequence[str], ref: str | None = None) -> str:
    """A quoted table name, with a ref if given; it is never taken as a pattern."""
    name = identifier(parts)
    return name if ref is None else f"{name}@{identifier(ref)}"


def build(declared: type[Request], values: dict[str, Any]) -> Request:
    """A request from values; errors name the field."""
    try:
        return declared.model_validate(values)
    except ValidationError as error:
        problems = [
            f"{'.'.join(map(str, problem['loc'])) or 'request'}: {problem['msg'].removeprefix('Value error, ')}"
            for problem in error.errors(include_url=False, include_input=False)
        ]
        raise BadValue("; ".join(problems), f"lakewarden {declared.address()} --help shows the arguments.") from None
