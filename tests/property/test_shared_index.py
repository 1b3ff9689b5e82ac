"""Several workers over one index for each side give the pairs of one thread."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.errors import SpecError

SIZES = (1, 5, 300, 2500)


@given(
    seed=st.integers(0, 2**32 - 1),
    window=st.sampled_from([1, 400, (20, 700)]),
    key=st.sampled_from(["int32", "int64", "float64"]),
    workers=st.integers(1, 4),
    strategy=st.sampled_from(
        ["shared-index", "shared-index(task_size=1)", "shared-index(task_size=40, blocking_merge=1)"]
    ),
    self_join=st.booleans(),
)
def test_the_pairs_of_one_thread(seed, window, key, workers, strategy, self_join):
    random = np.random.default_rng(seed)
    spread = random.choice([3, 1000])
    self_join = self_join and not isinstance(window, tuple)
    options = {"window": window, "lower": -2, "upper": 3, "key": np.dtype(key), "self_join": self_join}
    one = sj.NumericJoin(**options, index="pim-tree(min_entries=16)")
    several = sj.NumericJoin(**options, index="pim-tree(min_entries=16)", workers=workers, strategy=strategy)
    for size in random.permutation(SIZES):
        sides = random.integers(0, 2, size).astype(np.uint8)
        keys = random.integers(-spread, spread, size).astype(key)
        for expected, found in zip(one.push(sides, keys), several.push(sides, keys), strict=True):
            np.testing.assert_array_equal(found, expected)
        assert several.count(sides, keys) == one.count(sides, keys)
    several.check()


def test_the_strategy_in_use():
    join = sj.NumericJoin(10, 0, 0, index="pim-tree", workers=2, strategy="shared-index")
    assert join.strategy == "shared-index"


@pytest.mark.parametrize("index", ["auto", "b-tree"])
def test_another_index_is_refused(index):
    with pytest.raises(SpecError, match=r"shares a pim-tree, not index='.*'; add index='pim-tree'"):
        sj.NumericJoin(10, 0, 0, index=index, workers=2, strategy="shared-index")
