"""Every index and number of workers gives the reference's pairs on streams that grow, shrink and renew it."""

import os

from cases import GROUPS, INDEXES, bulk_cases, run
from hypothesis import given, settings
from hypothesis import strategies as st

from slidejoin import isa

LONG = os.environ.get("SLIDEJOIN_TESTS") == "long"


@given(bulk_cases(), st.data())
@settings(max_examples=settings().max_examples // (2 if LONG else 5))
def test_index_group_level_and_batches(case, data):
    wanted, stats = run(case, index="nested-loop", group=1, level="portable", checked=False)
    for _ in range(4):
        how = {
            "index": data.draw(st.sampled_from(INDEXES)),
            "group": data.draw(st.sampled_from(GROUPS)),
            "level": data.draw(st.sampled_from(isa.available())),
            "workers": data.draw(st.sampled_from((1, 1, 2, 3, 8))),
            "splits": data.draw(st.lists(st.integers(0, len(case.arrivals)), max_size=6)),
        }
        found, other = run(case, **how)
        assert found == wanted, how
        assert {**stats, "memory_bytes": 0} == {**other, "memory_bytes": 0}
