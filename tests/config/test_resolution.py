"""Where a setting of a table comes from: the nearest that says anything wins, each value by itself.

Covers `config/compaction.py`, `config/layers.py`, `config/retention.py` and `config/settings.py`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from lakewarden.config import Settings
from lakewarden.config.section import FromProperty
from lakewarden.engine.base.table_name import TableName
from lakewarden.features.retention.policy import RetentionPolicy, policy_of

LAKE = {"catalog": {"type": "sql", "uri": "sqlite:///x.db"}, "warehouse": "file:///x"}
DAY_MS = 86_400_000


def declared(
    table: str = "sales.orders",
    properties: dict[str, str] | None = None,
    options: dict[str, Any] | None = None,
    **sections: Any,
) -> dict[str, tuple[Any, str]]:
    settings = Settings.model_validate({"lakes": {"main": LAKE}, **sections})
    found = settings.resolve("main", table, "retention", options, properties)
    return {name: (value.value, value.source) for name, value in found.items()}


def policy(*args: Any, **sections: Any) -> RetentionPolicy:
    settings = Settings.model_validate({"lakes": {"main": LAKE}, **sections})
    *namespace, name = str(args[0]).split(".")
    options = args[1] if len(args) > 1 else {}
    return policy_of(settings, TableName("main", tuple(namespace), name), {}, options)


def test_defaults() -> None:
    assert declared() == {
        "keep_last": (30, "defaults"),
        "keep_days": (90, "defaults"),
        "keep_tagged": (True, "defaults"),
        "production_keep_days": (730, "defaults"),
        "reader_grace": (timedelta(days=1), "defaults"),
    }


def test_each_source_goes_before_the_next() -> None:
    """An option, the most specific pattern, another pattern, the table's properties, its layer, the defaults."""
    said: dict[str, Any] = {
        "defaults": {"retention": {"keep_days": 1}},
        "layers": {"bronze": {"retention": {"keep_days": 2}}},
    }
    properties = {"history.expire.max-snapshot-age-ms": str(3 * DAY_MS)}
    table = "bronze.orders"
    assert declared("plain.orders", **said)["keep_days"] == (1, "defaults")
    assert declared(table, **said)["keep_days"] == (2, "layer bronze")
    assert declared(table, properties, **said)["keep_days"] == (3, "table property")
    said["tables"] = {"*": {"retention": {"keep_days": 4}}}
    assert declared(table, properties, **said)["keep_days"] == (4, "tables: *")
    said["tables"]["bronze.*"] = {"retention": {"keep_days": 5}}
    assert declared(table, properties, **said)["keep_days"] == (5, "tables: bronze.*")
    said["tables"]["bronze.orders"] = {"retention": {"keep_days": 6}}
    assert declared(table, properties, **said)["keep_days"] == (6, "tables: bronze.orders")
    assert declared(table, properties, {"keep_days": 7}, **said)["keep_days"] == (7, "option")


def test_each_value_comes_from_its_own_place() -> None:
    found = declared(
        "bronze.orders",
        {"history.expire.min-snapshots-to-keep": "3"},
        {"keep_tagged": False},
        tables={"bronze.*": {"retention": {"production_keep_days": 5}}},
    )
    assert found == {
        "keep_last": (3, "table property"),
        "keep_days": (30, "layer bronze"),
        "keep_tagged": (False, "option"),
        "production_keep_days": (5, "tables: bronze.*"),
        "reader_grace": (timedelta(days=1), "defaults"),
    }


@pytest.mark.parametrize(
    ("table", "days"),
    [
        ("bronze.t", 30),
        ("silver.t", 90),
        ("gold.t", 730),
        ("platinum.t", 730),
        ("sales.gold.t", 730),
        ("sales.golden.t", 90),
        ("sales.gold", 90),  # a table of that name is in no layer
    ],
)
def test_layers_by_the_namespace(table: str, days: int) -> None:
    assert policy(table).days == days


class TestPresets:
    def test_three_values_by_one_name(self) -> None:
        often = policy("web.t", tables={"web.*": {"retention": {"preset": "high-frequency"}}})
        assert often == RetentionPolicy(keep_last=50, keep_days=30, production_keep_days=365)
        law = policy("gold.t", defaults={"retention": {"preset": "compliance"}})
        assert law == RetentionPolicy(keep_last=100, keep_days=365, production_keep_days=2555, production=True)

    def test_what_is_given_beside_it_wins(self) -> None:
        found = declared("web.t", tables={"web.*": {"retention": {"preset": "compliance", "keep_days": 400}}})
        assert found["keep_days"] == (400, "tables: web.*")
        assert found["keep_last"] == (100, "tables: web.* (preset compliance)")
        assert found["keep_tagged"] == (True, "defaults")

    def test_a_preset_of_a_layer_wins_over_what_the_layer_usually_has(self) -> None:
        found = declared("bronze.t", layers={"bronze": {"retention": {"preset": "compliance"}}})
        assert found["keep_days"] == (365, "layer bronze (preset compliance)")

    def test_as_a_default(self) -> None:
        found = declared("web.t", defaults={"retention": {"preset": "high-frequency", "keep_last": 7}})
        assert found["keep_last"] == (7, "defaults")
        assert found["production_keep_days"] == (365, "defaults (preset high-frequency)")

    @pytest.mark.parametrize("preset", ["complianz", ["compliance"], 3])
    def test_no_such_preset(self, preset: object) -> None:
        with pytest.raises(ValueError, match="'high-frequency' or 'compliance'"):
            Settings.model_validate({"lakes": {"main": LAKE}, "defaults": {"retention": {"preset": preset}}})


class TestProduction:
    def test_as_configured(self) -> None:
        assert policy("sales.t", tables={"sales.t": {"production": True}}).days == 730
        assert policy("gold.t", tables={"gold.t": {"production": False}}).days == 90

    def test_an_option_holds_for_production_too(self) -> None:
        assert policy("gold.t", {"keep_days": 3}).days == 3
        assert policy("gold.t", {"keep_days": 0}).days == 0

    def test_another_option_leaves_it_production(self) -> None:
        assert policy("gold.t", {"keep_last": 3}) == RetentionPolicy(keep_last=3, production=True)

    def test_an_option_for_production_only(self) -> None:
        assert policy("gold.t", {"production_keep_days": 3}).days == 3
        assert policy("sales.t", {"production_keep_days": 3}).days == 90
        both = {"keep_days": 5, "production_keep_days": 3}
        assert (policy("gold.t", both).days, policy("sales.t", both).days) == (3, 5)

    def test_days_of_its_own(self) -> None:
        assert policy("gold.t", tables={"gold.*": {"retention": {"production_keep_days": 10}}}).days == 10


@pytest.mark.parametrize(
    ("text", "found"),
    [("90", 1), ("100", 1), ("101", 2), ("0", 0), ("", None), ("-5", None), ("1.5", None), ("٣", None)],
)
def test_properties_in_larger_units_are_rounded_up(text: str, found: int | None) -> None:
    assert FromProperty("p", per=100).read(text) == found


class TestOneWayForEverySection:
    def test_what_stands_beside_the_sections(self) -> None:
        said = {"tables": {"web.*": {"skip": True}, "web.t": {"skip": False, "production": True}}}
        settings = Settings.model_validate({"lakes": {"main": LAKE}, **said})
        found = settings.resolve("main", "web.t", "table")
        assert {name: (value.value, value.source) for name, value in found.items()} == {
            "production": (True, "tables: web.t"),
            "skip": (False, "tables: web.t"),
        }
        assert settings.resolve("main", "web.other", "table")["skip"].source == "tables: web.*"
        assert settings.is_production("main", "gold.t").source == "layer gold"

    def test_erasure(self) -> None:
        said = {
            "tables": {"web.*": {"erasure": {"grace": "7d", "keys": ["email"]}}, "web.t": {"erasure": {"grace": "1d"}}}
        }
        settings = Settings.model_validate({"lakes": {"main": LAKE}, **said})
        found = settings.resolve("main", "web.t", "erasure")
        assert {name: value.source for name, value in found.items()} == {
            "keys": "tables: web.*",
            "grace": "tables: web.t",
            "watch": "defaults",
        }
        assert settings.erasure("main", "web.t").grace == timedelta(days=1)
        assert settings.erasure("main", "web.t").keys == ["email"]

    def test_an_option_that_is_not_given_says_nothing(self) -> None:
        settings = Settings.model_validate({"lakes": {"main": LAKE}})
        found = settings.resolve("main", "web.t", "compaction", {"verify": None, "rewrite_all": False})
        assert (found["verify"].source, found["rewrite_all"].source) == ("defaults", "option")
