"""Rows in mapped files decide memory, never results: every window, join type and split into batches."""

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from window_cases import expected, run, scripts

from slidejoin import reference, spill

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spill, "SEGMENT", 4096)
        patch.setattr(spill, "BLOCK", 64)
        patch.setattr(spill, "MAPPED", 2**14)
        yield tmp_path_factory.mktemp("rows")


@settings(max_examples=max(settings.default.max_examples // 2, 1))
@given(scripts(), st.data())
def test_equals_the_reference(folder, script, data):
    spec, rows = script
    splits = data.draw(st.lists(st.integers(0, len(rows)), max_size=3))
    wanted, counters = expected(spec, rows)
    found, stats = run(spec, rows, splits=splits, order="full", spill=folder)
    assert reference.agrees(found, wanted, "full")
    assert stats == counters
