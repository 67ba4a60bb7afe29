import pytest

pytest.register_assert_rewrite("tests.features.compaction.compacted")
