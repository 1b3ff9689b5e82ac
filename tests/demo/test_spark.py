"""The demo on Spark, without Spark: its feed, and that its check finds every kind of wrong result."""

import re

import numpy as np
import pyarrow as pa
import pytest

from slidejoin import WindowJoin
from slidejoin.demo.spark import check, feed

SETUP = feed.Setup(rows=20_000, batches=4, band=30, seed=3)


@pytest.fixture(scope="module")
def generated():
    return feed.generate(SETUP)


@pytest.fixture(scope="module")
def right_result(generated):
    """By our own engine, which knows nothing of the check."""
    schemas = (generated.trades.schema, generated.quotes.schema)
    join = WindowJoin(SETUP.on, SETUP.window, schemas=schemas)
    return pa.concat_tables(
        join.push(**{side: table})
        for number in range(SETUP.batches)
        for side, table in zip(("left", "right"), generated.step(number), strict=True)
    )


def test_feed_depends_on_the_seed_alone(generated):
    again, other = feed.generate(SETUP), feed.generate(feed.Setup(20_000, 4, 30, seed=4))
    assert again.trades.equals(generated.trades)
    assert again.quotes.equals(generated.quotes)
    assert not other.trades.equals(generated.trades)


def test_steps_are_all_rows_in_order(generated):
    steps = [generated.step(number) for number in range(SETUP.batches)]
    for side, whole in enumerate((generated.trades, generated.quotes)):
        assert pa.concat_tables([step[side] for step in steps]).equals(whole)
        assert min(step[side].num_rows for step in steps) > 0
    assert generated.trades.num_rows + generated.quotes.num_rows == SETUP.rows


def test_rows_are_in_disorder_but_never_late(generated):
    """A watermark follows by the lateness, after each step or whatever else is less."""
    for whole, ends in zip((generated.trades, generated.quotes), generated.arrived, strict=True):
        times = whole.column("ts").cast(pa.int64()).to_numpy()
        latest = np.maximum.accumulate(times)
        assert (times < latest).mean() > 0.5
        assert (latest - times).max() < feed.LATENESS * 1e6
        assert times[ends[0] :].min() < latest[ends[0] - 1]  # steps overlap


def test_right_result_passes(generated, right_result):
    assert right_result.num_rows > 1000
    assert check.find_failure(generated, SETUP.band, right_result) is None


def test_brute_force_is_the_definition(generated):
    """On a part that can be checked pair by pair."""
    small = feed.Feed(generated.trades.slice(0, 400), generated.quotes.slice(0, 1200), ([400], [1200]))
    trades, quotes = small.trades.to_pylist(), small.quotes.to_pylist()
    expected = [
        i * 1200 + j
        for i, trade in enumerate(trades)
        for j, quote in enumerate(quotes)
        if trade["symbol"] == quote["symbol"]
        and abs(trade["cents"] - quote["cents"]) <= 500
        and -feed.BEFORE <= (quote["ts"] - trade["ts"]).total_seconds() <= feed.AFTER
    ]
    assert sorted(check.pairs_by_brute_force(small, 500).tolist()) == expected
    assert len(expected) > 100


def replaced(table, name, change):
    place = table.column_names.index(name)
    return table.set_column(place, name, change(table.column(name)))


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda table: table.slice(1), "1 of .* pairs are missing"),
        (lambda table: pa.concat_tables([table, table.slice(7, 1)]), "1 pairs came out twice"),
        (
            lambda table: replaced(table, "quote", lambda column: pa.chunked_array([np.roll(column, 1)])),
            "missing",
        ),
        (lambda table: table.slice(0, 0), "pairs are missing"),
        (
            lambda table: replaced(table, "shares", lambda c: pa.chunked_array([np.roll(c, 1)])),
            "values of column 'shares' are not those of the input",
        ),
        (
            lambda table: replaced(table, "ts_right", lambda c: pa.nulls(len(c), c.type)),
            "values of column 'ts_right' are not those of the input",
        ),
    ],
)
def test_wrong_results_are_found(generated, right_result, damage, says):
    failure = check.find_failure(generated, SETUP.band, damage(right_result))
    assert failure is not None
    assert re.search(says, failure)


def test_pair_that_is_none_is_found(generated, right_result):
    assert "are not matches" in check.find_failure(generated, SETUP.band - 1, right_result)
