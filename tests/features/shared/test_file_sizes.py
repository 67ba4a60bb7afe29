"""What size files should have: where each value comes from, and what follows from it."""

from __future__ import annotations

import pytest

from lakewarden.features.shared.file_sizes import CompactionPolicy, policy_of
from tests.small_lake import SmallLake

MB = 1 << 20


def test_what_is_said_without_saying_anything() -> None:
    policy = CompactionPolicy()
    assert (policy.target_file_size_mb, policy.min_file_size_mb, policy.max_concurrent_files) == (512, 10, 100)
    assert policy.rewrite_all is False
    assert policy.verify == "counts"
    assert policy.task_memory_mb == 512


@pytest.mark.parametrize("target", [1, 7, 16, 100, 512, 4096])
@pytest.mark.parametrize("small", [1, 10, 1000])
def test_small_is_never_near_to_the_target(target: int, small: int) -> None:
    """Else what a compaction writes would be small again."""
    policy = CompactionPolicy(target_file_size_mb=target, min_file_size_mb=small)
    assert policy.small <= small * MB
    assert target * MB // 8 <= policy.limit_reached <= target * MB // 6
    assert policy.small <= policy.limit_reached


def test_options_then_configuration_then_the_table_then_defaults(lake: SmallLake) -> None:
    lake.create()
    name = lake.warden.ground.tables.name("sales.orders")
    settings = lake.warden.ground.settings
    properties = {"write.target-file-size-bytes": str(64 * MB)}
    options = {"min_file_size_mb": 3}
    declared = settings.resolve("main", "sales.orders", "compaction", options, properties)
    assert (declared["target_file_size_mb"].value, declared["min_file_size_mb"].value) == (64, 3)
    assert declared["target_file_size_mb"].source == "table property"
    policy = policy_of(settings, name, properties, options)
    assert (policy.target, policy.min_file_size_mb) == (64 * MB, 3)


@pytest.mark.parametrize("text", ["0", "", "many", "-5"])
def test_a_property_that_says_nothing_counts_as_not_said(lake: SmallLake, text: str) -> None:
    lake.create()
    name = lake.warden.ground.tables.name("sales.orders")
    policy = policy_of(lake.warden.ground.settings, name, {"write.target-file-size-bytes": text}, {})
    assert policy.target == 512 * MB
