"""A small real lake for tests: an SQLite catalog, a local warehouse, and tables of any format."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from lakewarden import Warden
from tests import warm_process
from tests.cases import in_soak
from tests.new_lake import new_lake

SQLITE = "sqlite:///lakewarden.db"
SQLITE_FIRST, POSTGRES_FIRST = (
    pytest.mark.parametrize("state_url", [first, *in_soak(other)], indirect=True)
    for first, other in (("sqlite", "postgres"), ("postgres", "sqlite"))
)
"""For tests that start many processes: one control database in `make test`, the other in `make soak`."""
FORMATS = {
    "v1-sqlite": ((1, "sqlite"), []),
    "v2-postgres": ((2, "postgres"), [pytest.mark.postgres]),
    "v3-sqlite": ((3, "sqlite"), [pytest.mark.spark]),
}
ANY_FORMAT = pytest.mark.parametrize(
    "orders",
    [
        pytest.param(orders, id=id, marks=marks if id == "v2-postgres" else [*marks, pytest.mark.soak])
        for id, (orders, marks) in FORMATS.items()
    ],
    indirect=True,
)
"""For tests of `orders` that the format does not matter to: one in `make test`, the others in `make soak`."""
SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string())])
# Here statements move a few rows: what Spark compiles and plans anew for many takes longer than moving them.
SPARK_FOR_LITTLE = {
    "spark.sql.shuffle.partitions": 1,  # else it is by chance in how many files rows end up
    "spark.sql.adaptive.enabled": False,
    "spark.sql.codegen.wholeStage": False,
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


class SmallLake:
    """One installation in a folder, and what tests do to it from outside."""

    def __init__(self, folder: Path, state: str = SQLITE, lease_timeout: str = "60s") -> None:
        self.folder = folder
        new_lake(folder, has_state=state == SQLITE)
        config = folder / "lakewarden.yaml"
        settings = yaml.safe_load(config.read_text())
        settings["state"] = state
        settings["leases"] = {"timeout": lease_timeout}
        settings["spark"] = {"master": "local[2]", "memory": "2g", "conf": SPARK_FOR_LITTLE}
        config.write_text(yaml.safe_dump(settings))
        self.warden = Warden.open(folder)

    def __enter__(self) -> SmallLake:
        return self

    def __exit__(self, *_: object) -> None:
        self.warden.close()

    @property
    def catalog(self) -> Any:
        """The lake's catalog as any PyIceberg user has it."""
        return self.warden.ground.catalogs.get("main")

    def create(self, name: str = "sales.orders", format: int = 2, appends: int = 3) -> str:
        """A table with a few versions of two rows each."""
        self.catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
        if format < 3:
            self.catalog.create_table(name, SCHEMA, properties={"format-version": str(format)})
        else:
            sql = self.warden.ground.spark.sql
            columns = "id BIGINT, city STRING"
            sql(f"CREATE TABLE main.{name} ({columns}) USING iceberg TBLPROPERTIES ('format-version' = '3')")
        for _ in range(appends):
            self.append(name)
        return f"main.{name}"

    def append(self, name: str = "sales.orders", rows: int = 2) -> int:
        """Add rows with the next ids, as an outside writer would; answers with the new snapshot."""
        table = self.catalog.load_table(name)
        snapshot = table.current_snapshot()
        first = int(snapshot.summary["total-records"]) if snapshot else 0
        ids = list(range(first, first + rows))
        if table.metadata.format_version < 3:
            table.append(pa.table({"id": ids, "city": [f"city {i}" for i in ids]}, schema=SCHEMA))
        else:
            values = ", ".join(f"({i}, 'city {i}')" for i in ids)
            self.warden.ground.spark.sql(f"INSERT INTO main.{name} VALUES {values}")
        return self.head(name)

    def head(self, name: str = "sales.orders") -> int:
        return int(self.catalog.load_table(name).current_snapshot().snapshot_id)

    def refs(self, name: str = "sales.orders") -> dict[str, int]:
        return {ref: at.snapshot_id for ref, at in self.catalog.load_table(name).metadata.refs.items()}

    def metadata_files(self, name: str = "sales.orders") -> set[str]:
        folder = self.catalog.load_table(name).metadata.location.removeprefix("file://")
        return {path.name for path in (Path(folder) / "metadata").glob("*.metadata.json")}

    def ids(self, name: str = "sales.orders") -> list[int]:
        return sorted(row["id"] for row in self.warden.version.read(name, limit=10**6))

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "lakewarden", "--config", str(self.folder), *arguments]

    def configure(self, **sections: Any) -> None:
        """Replace sections of the configuration, and open the lake with them."""
        config = self.folder / "lakewarden.yaml"
        config.write_text(yaml.safe_dump(yaml.safe_load(config.read_text()) | sections))
        self.warden.close()
        self.warden = Warden.open(self.folder)

    def environment(self, failpoints: str = "") -> dict[str, str]:
        return os.environ | {"LAKEWARDEN_FAILPOINTS": failpoints}

    def run(
        self, *arguments: str, said: str = "", failpoints: str = "", check: int | None = 0
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in a separate process, with what is said to it on stdin."""
        done = warm_process.run(["--config", str(self.folder), *arguments], self.environment(failpoints), said=said)
        if check is not None:
            assert done.returncode == check, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def python(self, code: str, *arguments: str) -> str:
        """Run a piece of Python in a separate process; answers with what it printed."""
        command = [sys.executable, "-c", code, *arguments]
        return subprocess.run(command, check=True, timeout=300, stdout=subprocess.PIPE, text=True).stdout

    def sql_elsewhere(self, *statements: str) -> None:
        """Run statements on the lake's own Spark in a process of its own."""
        code = (
            "import sys\nfrom lakewarden import Warden\nspark = Warden.open(sys.argv[1]).ground.spark\n"
            "for statement in sys.argv[2:]:\n    spark.sql(statement).collect()"
        )
        self.python(code, str(self.folder), *statements)

    def start(self, *arguments: str, failpoints: str = "") -> subprocess.Popen[str]:
        """Start a command in a process of its own, and go on."""
        return subprocess.Popen(
            self.command(*arguments),
            env=self.environment(failpoints),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
