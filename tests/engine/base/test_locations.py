"""One spelling for one place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.engine.base.locations import apart, file_name, is_below, is_local, same_place


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/lake/t/a.parquet", "file:/lake/t/a.parquet"),
        ("file:///lake/t/a.parquet", "file:/lake/t/a.parquet"),
        ("file:///lake/t/a.parquet", "file:////lake/t/a.parquet"),
        ("file://localhost/lake/t/a.parquet", "/lake/t/a.parquet"),
        ("/lake//t/a.parquet", "file:///lake/t//a.parquet"),
        ("s3://bucket/t/a.parquet", "s3a://bucket/t/a.parquet"),
        ("s3n://bucket/t/a.parquet", "S3://bucket/t/a.parquet"),
        ("gs://bucket/t/a", "gcs://bucket/t/a"),
    ],
)
def test_the_same_file(one: str, other: str) -> None:
    assert same_place(one) == same_place(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s3://bucket/t/a", "s3://other/t/a"),
        ("s3://bucket/t/a", "gs://bucket/t/a"),
        ("s3://bucket/t//a", "s3://bucket/t/a"),  # in object stores these are two objects
        ("s3://bucket/T/a", "s3://bucket/t/a"),
        ("/lake/t/a%20b", "/lake/t/a b"),
    ],
)
def test_other_files(one: str, other: str) -> None:
    assert same_place(one) != same_place(other)


def test_taken_apart() -> None:
    assert apart("s3a://bucket/t/a?b#c") == ("s3://bucket", "/t/a?b#c")
    assert apart("file:///lake/t/a") == ("file:", "/lake/t/a")
    assert apart("s3://bucket") == ("s3://bucket", "")
    assert apart("hdfs://node:8020/t/a") == ("hdfs://node:8020", "/t/a")
    assert apart("hdfs:///t/a") == ("hdfs://", "/t/a")
    assert is_local("/x") and is_local("file:/x") and not is_local("s3://x/y")


def test_below() -> None:
    assert is_below("file:/lake/t/data/a", "/lake/t")
    assert is_below("s3a://bucket/t/a", "s3://bucket/t/")
    assert not is_below("/lake/t2/a", "/lake/t")
    assert not is_below("/lake/t", "/lake/t")


@given(st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1))
def test_a_name_stays_as_it_is(name: str) -> None:
    for folder in ("/lake/t", "file:///lake/t", "s3://bucket/t"):
        location = f"{folder}/{name}"
        assert file_name(location) == name
        assert same_place(location).endswith(f"/t/{name}")
        assert is_below(location, folder)
