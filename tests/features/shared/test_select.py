"""Which tables a request means: one name, a pattern, a namespace, or all of them."""

from __future__ import annotations

import pytest

from lakewarden.errors import BadReference, BadValue, TableNotFound
from lakewarden.features.retention.expire import Expire
from lakewarden.features.shared.select import is_pattern, select
from tests.features.retention.test_expire import configure
from tests.small_lake import SmallLake


@pytest.fixture
def shops(lake: SmallLake) -> SmallLake:
    for name in ("sales.orders", "sales.returns", "sales.eu.orders", "crm.people"):
        lake.create(name, appends=0)
    configure(lake, tables={"sales.returns": {"skip": True}})
    return lake


def names(lake: SmallLake, text: str, with_skipped: bool = False) -> list[str]:
    return sorted(ref.name.within_lake for ref in select(lake.warden.ground, text, with_skipped))


def test_a_star_in_the_version_or_in_backticks_makes_no_pattern() -> None:
    assert is_pattern("sales.*") and is_pattern("s?les.orders@v1")
    assert not is_pattern("sales.orders@v*") and not is_pattern("sales.`a*b`")


def test_a_name_means_one_table_even_if_it_is_skipped(shops: SmallLake) -> None:
    assert names(shops, "sales.returns") == ["sales.returns"]


def test_a_pattern_matches_with_or_without_the_lake_and_leaves_skipped_tables_out(shops: SmallLake) -> None:
    assert names(shops, "sales.*") == names(shops, "main.sales.*") == ["sales.eu.orders", "sales.orders"]
    assert names(shops, "sales.r*", with_skipped=True) == ["sales.returns"]
    with pytest.raises(TableNotFound) as refused:
        names(shops, "sales.r*")
    assert refused.value.hint == "The configuration skips 1 matching tables."


def test_a_pattern_may_name_a_version(shops: SmallLake) -> None:
    assert {ref.ref for ref in select(shops.warden.ground, "sales.*@v1")} == {"v1"}
    with pytest.raises(BadReference, match="has no version after the @"):
        select(shops.warden.ground, "sales.*@ ")


def test_a_namespace_includes_those_below_it(shops: SmallLake) -> None:
    ground = shops.warden.ground
    chosen = {name.within_lake for name in Expire(namespace="sales").chosen(ground)}
    assert chosen == {"sales.orders", "sales.eu.orders"}
    assert len(Expire(all=True).chosen(ground)) == 3


@pytest.mark.parametrize("given", [{}, {"all": True, "table": "sales.orders"}, {"all": True, "namespace": "sales"}])
def test_exactly_one_way_must_be_used(shops: SmallLake, given: dict[str, object]) -> None:
    with pytest.raises(BadValue, match="no tables were selected|exclude each other"):
        Expire(**given).chosen(shops.warden.ground)


def test_a_version_is_refused_where_a_table_is_meant(shops: SmallLake) -> None:
    with pytest.raises(BadReference, match="names a version"):
        Expire(table="sales.orders@v1").chosen(shops.warden.ground)
