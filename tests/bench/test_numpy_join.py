"""The join that NumPy users write: its pairs are ours."""

import numpy as np
import pytest

from slidejoin.bench.numpy_join import NumpyJoin
from slidejoin.bench.workload import Workload
from slidejoin.numeric import NumericJoin


@pytest.mark.parametrize("recent", [0, 1, 3])
@pytest.mark.parametrize("push", [100, 1000, 5000])
def test_pairs_are_those_of_numeric_join(push, recent):
    workload = Workload(1000, 3)
    ours = NumericJoin(1000, workload.lower, workload.upper, np.int32)
    theirs = NumpyJoin(1000, workload.lower, workload.upper, recent)
    rng = np.random.default_rng(recent)
    for start in range(0, 10_000, push):
        sides = rng.integers(0, 2, push).astype(np.uint8)
        keys = workload.keys(start, push)
        for one, other in zip(ours.push(sides, keys), theirs.push(sides, keys), strict=True):
            np.testing.assert_array_equal(one, other)
