"""Batches that fit neither memory nor one slice of time: the rows are the same, and files go."""

import itertools
import tempfile
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from window_cases import HOWS, KINDS, Condition, Row, Spec, expected, id_pairs, scripts

import slidejoin as sj
from slidejoin import reference
from slidejoin.spec import join_spec

pytest.importorskip("pyspark")

from spark.streams import LONG, assert_same, crossed, embedded_whole, random_streams
from spark.test_spark_oracle import CONDITIONS, JOINS

from slidejoin.spark import batch, explain, meet
from slidejoin.spark.arrivals import placed
from slidejoin.spark.recipe import Recipe

WINDOWS = (
    sj.interval("1s", "500ms", time="ts"),
    sj.interval("-1s", "4s", time="ts"),
    sj.within("1ms", time="ts"),
    sj.interval("200000d", "200000d", time="ts"),
)


def recipe_of(asked, schemas):
    """The recipe of a join of Arrow tables in one partition."""
    return Recipe("call", "join", "", asked, schemas, placed(*(schema.types for schema in schemas)), 1)


def joined(recipe, sides, rows=7):
    """What comes out of a task, batch by batch."""
    found = list(batch.run(recipe.to_json(), iter(crossed(recipe, sides, rows))))
    assert all(part.schema.equals(recipe.output) for part in found)
    return found


LIMITS = ((1, 1), (3000, 7), (2**26, 2**14))


def test_batches_of_any_size(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    streams = random_streams(seed=91, rows=60 if LONG else 30)
    for number, (name, how) in enumerate(JOINS):
        on, window = CONDITIONS[name][0], WINDOWS[number % len(WINDOWS)]
        interval = sj.interval("1ms", "1ms", time="ts") if number % len(WINDOWS) == 2 else window
        recipe = recipe_of(join_spec(on, interval, how, order="none"), streams.schemas)
        expected = embedded_whole(streams, on, window, how)
        for limit, length in LIMITS:
            monkeypatch.setattr(batch, "LIMIT", limit)
            monkeypatch.setattr(batch, "SLICE", length)
            sides = [pa.concat_tables(side) for side in streams.sides]
            assert_same(pa.Table.from_batches(joined(recipe, sides), recipe.output), expected)
            assert list(tmp_path.iterdir()) == [], "no file is left"


def test_explain_tells_how_batches_are_joined(spark):
    empty = spark.createDataFrame([], "k bigint, ts timestamp")
    text = repr(explain(empty, empty, sj.band("k", within=1), WINDOWS[0], "full", partitions=2))
    assert "rows in runs, by band('k', 'k')" in text
    assert "twice the work" in text
    assert "128 MB of rows of a partition" in text


# --- Against the reference ---


def asked_of(spec):
    """What a join of the tests asks for."""
    names = zip(spec.on, spec.names(0), spec.names(1), strict=False)
    first, *others = (condition.predicate(left, right) for condition, left, right in names)
    for other in others:
        first &= other
    return join_spec(first, spec.sj_window(), spec.how, order="none")


def sides_of(spec, rows):
    """Both tables; a row's id is its number among all."""
    numbers = [[i for i, row in enumerate(rows) if row.side == side] for side in (0, 1)]
    return [spec.table(side, [rows[i] for i in numbers[side]], numbers[side]) for side in (0, 1)]


def found_by_task(spec, rows, size=7):
    """The pairs of each batch that comes out."""
    recipe = recipe_of(asked_of(spec), (spec.schema(0), spec.schema(1)))
    parts = joined(recipe, sides_of(spec, rows), size)
    return [id_pairs(spec, pa.Table.from_batches([part])) for part in parts]


def from_reference(spec, rows):
    return Counter(itertools.chain(*expected(spec, rows)[0]))


def counted(found):
    return Counter(itertools.chain(*found))


@pytest.fixture
def limits(monkeypatch):
    """Set bytes in memory, rows of a slice and pairs of a piece."""

    def set_limits(memory=batch.LIMIT, length=batch.SLICE, pairs=batch.ROWS):
        monkeypatch.setattr(batch, "LIMIT", memory)
        monkeypatch.setattr(batch, "SLICE", length)
        monkeypatch.setattr(batch, "ROWS", pairs)
        monkeypatch.setattr(meet, "ROWS", pairs)

    return set_limits


# Spark has no dictionaries.
PLAIN = tuple(name for name in KINDS if name not in ("dictionary", "texts"))


@given(
    script=scripts(windows_of=("interval",), self_joins=False, hows=HOWS, kinds=PLAIN, max_size=40),
    memory=st.sampled_from((1, 600, 2**26)),
    length=st.sampled_from((1, 3, 2**14)),
    pairs=st.sampled_from((1, 4, 2**20)),
)
def test_the_reference_agrees(script, memory, length, pairs):
    spec, rows = script
    spec = replace(
        spec, window=replace(spec.window, lateness=None, late="drop")
    )  # in a batch nothing is late
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in (
            (batch, "LIMIT", memory), (batch, "SLICE", length), (batch, "ROWS", pairs), (meet, "ROWS", pairs)
        ):  # fmt: skip
            patch.setattr(module, name, value)
        assert counted(found_by_task(spec, rows)) == from_reference(spec, rows)


BAND = Condition("band", "int64", ((-2, 3),))
TEXT = Condition("equal", "string")
TEXTS = ("a", "b", "", "ä", "long enough not to be inline", None)
ONS = {
    "equal and time": (Condition("equal", "int32"),),
    "text and time": (TEXT,),
    "texts, numbers and time": (TEXT, Condition("equal", "int32"), Condition("less", "float64")),
    "band": (BAND,),
    "bands and text": (Condition("bands", "int64", ((-4, -3), (0, 2))), TEXT),
    "floats": (Condition("band", "float64", ((-0.3, 0.3),)),),
    "time alone": (Condition("not_equal", "string"),),
    "comparison": (Condition("greater_equal", "int64"),),
}


PARTS = [(1, 4, 2**20), (1500, 1, 5), (2**26, 10, 3), (2**26, 2**14, 2**20)]
if LONG:
    PARTS = list(itertools.product((1, 1500, 2**26), (1, 10, 2**14), (1, 5, 2**20)))


def key_values(condition, random, count):
    """Keys of a condition's kind that collide, with nulls, and NaN among floats."""
    if condition.columns.is_text:
        return [TEXTS[i] for i in random.integers(0, len(TEXTS), count)]
    numbers = random.integers(0, 12, count)
    if condition.columns.is_float:
        return [None if i == 0 else float("nan") if i == 1 else i / 10 for i in numbers]
    return [None if i == 0 else int(i) for i in numbers]


def random_rows(on, seed, count=240, times=60):
    random = np.random.default_rng(seed)
    keys = zip(*(key_values(condition, random, count) for condition in on), strict=True)
    stamps = [None if i == 0 else int(i) for i in random.integers(0, times, count)]
    sides = (int(side) for side in random.integers(0, 2, count))
    return [Row(*row) for row in zip(sides, keys, stamps, strict=True)]


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("name", ONS)
def test_every_join_type_in_blocks_slices_and_pieces(limits, name, how):
    on = ONS[name]
    spec = Spec(on=on, window=reference.Interval(5, 3), how=how, one_name=False)
    rows = random_rows(on, seed=len(name) + len(how))
    wanted = from_reference(spec, rows)
    assert len(wanted) > 3
    for memory, length, pairs in PARTS:
        limits(memory, length, pairs)
        assert counted(found_by_task(spec, rows, size=9)) == wanted


@pytest.mark.parametrize("window", [(1, 1), (40, -3), (-1, 3), (10**6, 10**6)])
def test_a_hot_key_comes_out_in_pieces(limits, window):
    """One home row has more partners than a piece has pairs."""
    pieces_of_a_hot_key(limits, window, lambda i: i % 2)


@pytest.mark.parametrize("side", [0, 1])
def test_a_hot_key_of_few_rows_and_many(limits, side):
    """The many are taken by halves where they are many times the few, on whichever side the home is."""
    pieces_of_a_hot_key(limits, (10**6, 10**6), lambda i: side if i % 21 else 1 - side)


def pieces_of_a_hot_key(limits, window, side_of):
    rows = [Row(side_of(i), ("hot",), i // 8) for i in range(64)]
    spec = Spec(on=(TEXT,), window=reference.Interval(*window))
    wanted = from_reference(spec, rows)
    for pairs in (1, 5, 64):
        limits(pairs=pairs)
        found = found_by_task(spec, rows)
        assert max(map(len, found)) <= pairs
        assert counted(found) == wanted
    limits(memory=1500, pairs=5)
    for how in HOWS[1:]:
        outer = replace(spec, how=how)
        assert counted(found_by_task(outer, rows)) == from_reference(outer, rows)


LEAST, MOST = -(2**63), 2**63 - 1
ENDS = (LEAST, LEAST + 1, LEAST + 9, -1, 0, 1, MOST - 9, MOST - 1, MOST, None)
REACHES = (
    (0, 0),
    (1, 0),
    (9, -9),
    (-(2**63), 2**63),
    (2**63, 2**63 - 1),
    (2**64 - 1, 2**64 - 1),
    (2**64 - 1, -(2**64 - 1)),
    (-(2**64 - 2), 2**64 - 1),
)


@pytest.mark.parametrize("name", ["band", "equal and time", "comparison"])
@pytest.mark.parametrize("window", REACHES)
def test_times_at_the_ends_of_their_type(limits, window, name):
    on = ONS[name]
    rows = [Row(side, (key,), ts) for side, key, ts in itertools.product((0, 1), (1, 2), ENDS)]
    for how in HOWS:
        spec = Spec(on=on, window=reference.Interval(*window), how=how)
        wanted = from_reference(spec, rows)
        for length in (1, 4, 2**14):
            limits(length=length)
            assert counted(found_by_task(spec, rows, size=20)) == wanted
