"""The helpers for users' tests: comparisons that say what differs, streams that keep their promises."""

import doctest

import numpy as np
import pyarrow as pa
import pytest

from slidejoin import testing
from slidejoin.testing import arrivals, assert_same_pairs, assert_tables_equal, streams


def test_examples_run() -> None:
    assert doctest.testmod(testing).failed == 0


def test_equal_tables_pass() -> None:
    table = pa.table(
        {
            "a": [1, None, 3],
            "f": [float("nan"), -0.0, None],
            "l": [[1.5], None, []],
            "s": [{"x": 1}, None, {"x": None}],
            "m": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int8())),
            "b": [b"x", None, b""],
        }
    )
    assert_tables_equal(table, pa.table(table.to_pydict(), schema=table.schema))
    assert_tables_equal(table, pa.concat_tables([table.slice(2), table.slice(0, 2)]), order="none")
    assert_tables_equal(table.select([]), table.select([]))


@pytest.mark.parametrize(
    ("actual", "expected", "order", "message"),
    [
        ([1, 2], [1, 3], "full", "row 1 differs, of 2 rows and 2 expected"),
        ([1, 2], [1], "full", "row 1 differs, of 2 rows and 1 expected"),
        ([1], [1, 2], "full", "expected {'a': 2}"),
        ([1], [1, 2], "full", "actual   none"),
        ([2, 1], [1, 2], "full", "only the order differs"),
        ([1, 1, 2], [1, 2, 2], "none", "1 row missing: {'a': 2}"),
        ([1, 1, 2], [1, 2, 2], "none", "1 row too many: {'a': 1}"),
        ([1], [None], "none", "1 row missing: {'a': None}"),
        (
            list(range(20)),
            [],
            "none",
            "20 rows too many: {'a': 0}, {'a': 1}, {'a': 2}, {'a': 3}, {'a': 4}, …",
        ),
    ],
)
def test_differing_tables_are_explained(
    actual: list[int], expected: list[int], order: testing.Order, message: str
) -> None:
    tables = [pa.table({"a": pa.array(values, pa.int64())}) for values in (actual, expected)]
    with pytest.raises(AssertionError) as caught:
        assert_tables_equal(*tables, order=order)
    assert message in str(caught.value)


def test_signs_of_zero_and_columns_differ() -> None:
    with pytest.raises(AssertionError, match=r"-0\.0"):
        assert_tables_equal(pa.table({"a": [0.0]}), pa.table({"a": [-0.0]}))
    for other in (
        pa.table({"b": [1]}),
        pa.table({"a": pa.array([1], pa.int8())}),
        pa.table({"a": [1], "b": [1]}),
    ):
        with pytest.raises(AssertionError, match="columns differ"):
            assert_tables_equal(pa.table({"a": [1]}), other)
    with pytest.raises(ValueError, match="order='arrival'; expected 'full' or 'none'"):
        assert_tables_equal(pa.table({"a": [1]}), pa.table({"a": [1]}), order="arrival")  # type: ignore[arg-type]


def test_pairs_in_every_form() -> None:
    arrays = (np.array([0, 1]), np.array([5, 6]))
    assert_same_pairs(arrays, [(0, 5), (1, 6)])
    assert_same_pairs([[1, 6], [0, 5]], arrays, order="none")  # type: ignore[list-item]
    assert_same_pairs([(0, None)], iter([(0, None)]))
    assert_same_pairs(((0, 5), (1, 6)), arrays)
    assert_same_pairs([], (np.array([], np.int64), np.array([], np.int64)))
    with pytest.raises(AssertionError, match=r"pair 1 differs.*\n.*\(1, 6\)\n.*\(1, 7\)"):
        assert_same_pairs(arrays, [(0, 5), (1, 7)])
    with pytest.raises(AssertionError, match=r"1 pair missing: \(0, 5\)"):
        assert_same_pairs(arrays, [(0, 5), (0, 5), (1, 6)], order="none")


@pytest.mark.parametrize("keys", ["uniform", "zipf", "gaussian", "drifting"])
@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.float32, np.float64])
def test_keys_stay_in_their_domain(keys: testing.Keys, dtype: type) -> None:
    table = arrivals(3000, seed=3, keys=keys, domain=100, dtype=dtype)
    values = table["key"].to_numpy()
    assert values.dtype == dtype
    assert (values.min() >= 0) & (values.max() < 100 if np.dtype(dtype).kind != "f" else values.max() <= 100)
    assert len(np.unique(values)) > 50


def test_distributions_have_their_shapes() -> None:
    def keys(kind: testing.Keys, **options: float) -> np.ndarray:
        return np.asarray(arrivals(20_000, keys=kind, domain=1000, **options)["key"].to_numpy())  # type: ignore[arg-type]

    def share(values: np.ndarray) -> float:
        return float(np.bincount(values).max() / len(values))

    assert share(keys("uniform")) < 0.005
    assert share(keys("zipf", skew=0.0)) < 0.005
    assert 0.1 < share(keys("zipf", skew=1.0)) < share(keys("zipf", skew=2.0))
    assert abs(keys("gaussian").mean() - 500) < 5
    assert abs(keys("gaussian").std() - 125) < 5
    drifting = keys("drifting")
    assert drifting[:1000].mean() < 60
    assert drifting[-1000:].mean() > 940


def test_sides_ids_and_payloads() -> None:
    table = arrivals(5000, seed=1, right=0.25)
    sides = np.array(table["side"].to_pylist())
    assert abs((sides == "right").mean() - 0.25) < 0.03
    left, right = streams(5000, seed=1, right=0.25)
    for side, rows in (("left", left), ("right", right)):
        assert rows["id"].to_pylist() == list(range((sides == side).sum()))
        assert rows["payload"][7].as_py() == f"{side[0].upper()}7"
        assert rows.column_names == ["id", "ts", "key", "payload"]
    assert streams(10, right=0.0)[1].num_rows == 0
    assert streams(10, right=1.0)[0].num_rows == 0
    assert arrivals(0).num_rows == 0


def test_times_follow_the_rate_and_the_disorder() -> None:
    ordered = arrivals(10_000, seed=2, rate=500)["ts"].to_numpy().astype(np.int64)
    assert (np.diff(ordered) >= 0).all()
    assert abs((ordered[-1] - ordered[0]) / 1e6 - 20) < 1
    shaken = arrivals(10_000, seed=2, rate=500, disorder=0.05)["ts"].to_numpy().astype(np.int64)
    lag = np.maximum.accumulate(shaken) - shaken
    assert 0 < lag.max() < 50_000
    assert (np.diff(shaken) < 0).any()


def test_one_argument_leaves_the_other_columns_alone() -> None:
    plain = arrivals(500, seed=4)
    changed = arrivals(500, seed=4, keys="zipf", disorder=1.0, nulls=0.3)
    assert changed.select(["side", "id", "payload"]).equals(plain.select(["side", "id", "payload"]))
    assert 100 < changed["key"].null_count < 200
    assert not arrivals(500, seed=5).equals(plain)
    assert arrivals(500, seed=4).equals(plain)


@pytest.mark.parametrize(
    "wrong",
    [{"n": -1}, {"domain": 0}, {"rate": 0}, {"disorder": -1}, {"right": 2}, {"nulls": -0.1}, {"keys": "x"}],
)
def test_wrong_arguments_are_named(wrong: dict[str, object]) -> None:
    (name, value), *_ = wrong.items()
    with pytest.raises(ValueError, match=rf"{name}='?{value}.*expected"):
        arrivals(**{"n": 10} | wrong)  # type: ignore[arg-type]
