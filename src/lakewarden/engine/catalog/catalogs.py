"""The configured lakes: each one's PyIceberg catalog, and the matching Spark settings.

A lake's name is its catalog's name in PyIceberg and in Spark SQL, so that other tools can open the same lake. Catalogs
are opened on first use, and reading never creates one.
"""

from __future__ import annotations

import re
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lakewarden.config import LakeSettings, Settings, StorageSettings
from lakewarden.engine.base.exact_doubles import read_doubles_exactly
from lakewarden.engine.base.faults import first_line, translating
from lakewarden.engine.base.file_naming import owned_name
from lakewarden.engine.catalog.known_metadata import KnownMetadata
from lakewarden.errors import CatalogUnavailable
from lakewarden.lifecycle.failpoints import reach

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata

_SQL_ADDRESS = re.compile(  # as SQLAlchemy parses them: only @ must be encoded (%40) in a password
    r"(?P<driver>\w+)(\+\w+)?://((?P<user>[^:/@]*)(:(?P<password>[^@]*))?@)?"
    r"(?P<host>\[[^\]/?]+\]|[^/:?@\[]*)(?P<port>:\d+)?(?P<database>/[^?@]*)?(?P<query>\?.*)?"
)
_EXTRAS = {"psycopg": "postgres", "psycopg2": "postgres", "thrift": "hive", "hive_metastore": "hive", "boto3": "glue"}


class Catalogs:
    """The PyIceberg catalogs of the configured lakes, opened on first use."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._open: dict[str, Catalog] = {}
        self._lock = threading.Lock()

    def get(self, lake: str) -> Catalog:
        settings = self._settings.lake(lake)
        with self._lock:
            if lake not in self._open:
                self._open[lake] = open_catalog(lake, settings, create=False)
            return self._open[lake]

    def namespaces(self, lake: str) -> list[tuple[str, ...]]:
        """The top-level namespaces of a lake: the cheapest request that shows whether its catalog responds."""
        with translating(f"lake {lake}"):
            return [tuple(namespace) for namespace in self.get(lake).list_namespaces()]

    def close(self) -> None:
        """Close all open catalogs; the next use reopens them."""
        with self._lock:
            for catalog in self._open.values():
                catalog.close()
            self._open.clear()


def open_catalog(lake: str, settings: LakeSettings, create: bool) -> Catalog:
    """Open a lake's catalog. An SQL catalog's tables are created only with `create`."""
    missing = sqlite_file(settings)
    if settings.type == "sql" and missing is None:
        _parsed(str(settings.catalog["uri"]))
    if missing and not create and not missing.is_file():
        raise CatalogUnavailable(
            f"lake {lake}: its catalog {missing} does not exist",
            hint="Create the lake with lakewarden lake init, or correct the catalog's uri.",
        )
    properties = pyiceberg_properties(settings) | {"init_catalog_tables": str(create).lower()}
    read_doubles_exactly()
    try:
        with translating(f"lake {lake}"):
            if settings.type == "sql":
                return _open_sql(lake, properties)
            from pyiceberg.catalog import load_catalog

            return load_catalog(lake, **properties)
    except ModuleNotFoundError as error:
        raise _not_installed(lake, settings, str(error.name)) from None
    except ValueError as error:  # PyIceberg raises these for some invalid properties
        raise CatalogUnavailable(f"lake {lake}: {first_line(error)}", "Check the lake's catalog section.") from error
    except Exception as error:
        if type(error).__name__ == "NotInstalledError":
            raise _not_installed(lake, settings, settings.type) from None
        raise


def _open_sql(lake: str, properties: dict[str, str]) -> Catalog:
    from pyiceberg.catalog import Catalog as AnyCatalog
    from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
    from pyiceberg.exceptions import NoSuchTableError
    from pyiceberg.table import Table

    known = KnownMetadata()

    class TidySqlCatalog(SqlCatalog):
        """Parses each metadata file once, marks those it writes, and deletes those of commits that lost a race."""

        def _convert_orm_to_iceberg(self, orm_table: IcebergTables) -> Table:
            location = orm_table.metadata_location
            if not location:
                raise NoSuchTableError("it has no metadata location")
            metadata = known.read(self._load_file_io(location=location).new_input(location))
            return Table(
                identifier=(*AnyCatalog.identifier_to_tuple(orm_table.table_namespace), orm_table.table_name),
                metadata=metadata,
                metadata_location=location,
                io=self._load_file_io(metadata.properties, location),
                catalog=self,
            )

        def commit_table(self, *args: Any, **kwargs: Any) -> Any:
            written = _Written.of_this_thread
            written.place = None
            try:
                landed = super().commit_table(*args, **kwargs)
            except Exception as error:
                if written.place is not None and _never_landed(error):
                    io, location = written.place
                    with suppress(OSError):
                        io.delete(location)
                raise
            with suppress(Exception):  # the commit has landed: whatever this raises, the file is read when needed
                location = landed.metadata_location
                known.keep(self._load_file_io(location=location).new_input(location), landed.metadata)
            return landed

        def _update_and_stage_table(self, *args: Any, **kwargs: Any) -> Any:
            staged = super()._update_and_stage_table(*args, **kwargs)
            staged.metadata_location = owned_name(staged.metadata_location)
            return staged

        @staticmethod
        def _write_metadata(metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:
            SqlCatalog._write_metadata(metadata, io, metadata_path)
            _Written.of_this_thread.place = (io, metadata_path)
            reach("commit.staged")

    return TidySqlCatalog(lake, **properties)


def _never_landed(error: Exception) -> bool:
    """Whether a commit that raised this error is certainly not in the catalog."""
    from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError

    refused = getattr(getattr(error, "orig", None), "sqlite_errorname", "")
    lost = isinstance(error, CommitFailedException | TableAlreadyExistsError)
    return lost or refused.startswith(("SQLITE_BUSY", "SQLITE_READONLY"))


class _Written(threading.local):
    """The metadata file that this thread wrote last."""

    of_this_thread: _Written
    place: tuple[FileIO, str] | None = None


_Written.of_this_thread = _Written()


def _not_installed(lake: str, settings: LakeSettings, module: str) -> CatalogUnavailable:
    extra = _EXTRAS.get(module.split(".")[0], settings.type)
    return CatalogUnavailable(
        f"lake {lake}: a catalog of type {settings.type} needs {module}, which is not installed",
        hint=f"pip install 'lakewarden[{extra}]'",
    )


def pyiceberg_properties(settings: LakeSettings) -> dict[str, str]:
    """The lake's settings for PyIceberg's `load_catalog`."""
    storage = settings.storage
    properties = {key: _text(value) for key, value in settings.catalog.items()}
    properties["warehouse"] = settings.warehouse
    addressing = {"s3.force-virtual-addressing": _text(not storage.path_style)} if storage.endpoint else {}
    return _s3(storage, "s3.region") | addressing | properties


def _s3(storage: StorageSettings, region: str) -> dict[str, str]:
    optional = {
        "s3.endpoint": storage.endpoint,
        "s3.access-key-id": storage.access_key,
        "s3.secret-access-key": storage.secret_key,
        "s3.session-token": storage.session_token,
        region: storage.region,
    }
    return {key: value for key, value in optional.items() if value is not None}


def spark_properties(lake: str, settings: LakeSettings) -> dict[str, str]:
    """The lake's settings for a Spark session, under `spark.sql.catalog.LAKE`."""
    storage = settings.storage
    catalog = {
        "warehouse": settings.warehouse,
        "cache-enabled": "false",  # Spark would not see commits by others
        **_spark_catalog(settings),
    }
    if settings.warehouse.startswith(("s3:", "s3a:")):
        catalog["io-impl"] = "org.apache.iceberg.aws.s3.S3FileIO"
        if storage.endpoint:
            catalog["s3.path-style-access"] = _text(storage.path_style)
    catalog |= _s3(storage, "client.region") | settings.spark
    prefix = f"spark.sql.catalog.{lake}"
    return {prefix: "org.apache.iceberg.spark.SparkCatalog"} | {f"{prefix}.{k}": v for k, v in catalog.items()}


def _spark_catalog(settings: LakeSettings) -> dict[str, str]:
    if settings.type == "sql":
        return _jdbc(str(settings.catalog["uri"]))
    passed_on = {key: _text(value) for key, value in settings.catalog.items() if key not in ("type", "uri")}
    uri = settings.catalog.get("uri")
    return passed_on | {"type": settings.type} | ({"uri": str(uri)} if uri else {})


def _jdbc(uri: str) -> dict[str, str]:
    common = {"type": "jdbc", "jdbc.schema-version": "V1"}
    if uri.startswith("sqlite"):
        return common | {"uri": f"jdbc:sqlite:{_file_of(uri)}"}
    parts = _parsed(uri)
    host = parts["host"] or "localhost"
    address = {
        "uri": f"jdbc:{parts['driver']}://{host}{parts['port'] or ''}{parts['database'] or '/'}{parts['query'] or ''}"
    }
    user = {"jdbc.user": unquote(parts["user"])} if parts["user"] else {}
    password = {"jdbc.password": unquote(parts["password"])} if parts["password"] else {}
    return common | address | user | password


def _parsed(uri: str) -> re.Match[str]:
    """The parts of an SQL catalog's URL. An invalid URL is not shown, since it may contain a password."""
    parts = _SQL_ADDRESS.fullmatch(uri)
    if parts is None:
        raise CatalogUnavailable(
            f"the catalog's uri {uri.partition(':')[0]}://… is invalid",
            "Write it as postgresql+psycopg://user:password@host:5432/database, with %40 for an @ in the password.",
        )
    return parts


def sqlite_file(settings: LakeSettings) -> Path | None:
    """The file of an SQLite catalog; None for other catalogs."""
    uri = str(settings.catalog.get("uri", ""))
    if settings.type != "sql" or not uri.startswith("sqlite"):
        return None
    return Path(_file_of(uri))


def _file_of(sqlite: str) -> str:
    return sqlite.split(":///", 1)[1].partition("?")[0]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
