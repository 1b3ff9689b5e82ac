"""The join of sorted runs: the pairs of the reference, in chunks, whatever the sizes of both runs."""

import functools
import itertools
import operator
import os
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from window_cases import KINDS, ONE_HASH, Condition, Row, Spec, expected, scripts

import slidejoin as sj
from slidejoin import _core, isa, reference
from slidejoin.errors import SpecError
from slidejoin.indexed import plan
from slidejoin.keys import bind
from slidejoin.sorted_runs import Run, RunKernel
from slidejoin.spec import join_spec

LONG = os.environ.get("SLIDEJOIN_TESTS") == "long"
ALL = reference.Rows(2**30, 2**30)
LIMITS = (1, 2, 7, 10**6)


# --- Kernels and runs of a case ---


def condition_of(spec):
    names = zip(spec.on, spec.names(0), spec.names(1), strict=False)
    return functools.reduce(operator.and_, (part.predicate(left, right) for part, left, right in names))


def kernel_of(on, schemas, window=None):
    bound = bind(join_spec(on, window or sj.rows(1)), *schemas)
    return RunKernel(plan(bound), bound.time)


def run_of(kernel, table, side):
    """A run of a table, and which of its rows are where in the run."""
    columns = kernel.columns(table, side)
    order, keys = kernel.sort(columns)
    return Run(keys, [values[order] for values, _ in columns]), order


def chunks_of(kernel, left, right, limit):
    """All pairs of two runs, after a look at the chunks that they come in."""
    chunks = list(kernel.pairs(left, right, limit))
    for chunk in chunks:
        assert all(rows.dtype == np.int64 for rows in chunk)
        assert 1 <= len(chunk[0]) == len(chunk[1]) <= limit
    assert all(len(chunk[0]) == limit for chunk in chunks[:-1])
    none = np.empty(0, np.int64)
    return [np.concatenate([none, *(chunk[side] for chunk in chunks)]) for side in (0, 1)]


def flags_of(run, rows):
    """Which rows of a run are among some."""
    flags = np.zeros(len(run.keys), np.bool_)
    flags[rows] = True
    return flags


def check_order(kernel, table, side, run, order):
    """Rows are in the order of their keys, equal keys by row; those with a null or NaN are left out."""
    missing = np.zeros(len(table), np.bool_)
    for values, mask in kernel.columns(table, side):
        if mask is not None:
            missing |= mask
        if values.dtype.kind == "f":
            missing |= np.isnan(values)
    assert sorted(order) == list(np.flatnonzero(~missing))
    assert list(zip(run.keys, order, strict=True)) == sorted(zip(run.keys, order, strict=True))


def runs_of(spec, rows):
    """The kernel of a case, its runs, and the number of the row at each place of a run."""
    kernel = kernel_of(condition_of(spec), (spec.schema(0), spec.schema(1)), spec.sj_window())
    runs, numbers = [], []
    for side in (0, 1):
        ids = np.array([number for number, row in enumerate(rows) if row.side == side], np.int64)
        table = spec.table(side, [rows[number] for number in ids], ids)
        run, order = run_of(kernel, table, side)
        check_order(kernel, table, side, run, order)
        runs.append(run)
        numbers.append(ids[order])
    return kernel, runs, numbers


def verified(spec, rows, pairs):
    """Candidates whose texts were compared."""
    return [
        (left, right)
        for left, right in pairs
        if all(
            part.model()(a, b)
            for part, a, b in zip(spec.on, rows[left].key, rows[right].key, strict=True)
            if part.columns.is_text
        )
    ]


def check(spec, rows, limit):
    kernel, runs, numbers = runs_of(spec, rows)
    assert kernel.hashed == any(part.columns.is_text for part in spec.on)
    found = chunks_of(kernel, *runs, limit)
    pairs = [tuple(pair) for pair in zip(numbers[0][found[0]], numbers[1][found[1]], strict=True)]
    assert sorted(verified(spec, rows, pairs)) == sorted(itertools.chain(*expected(spec, rows)[0]))
    for side in (0, 1):
        assert np.array_equal(kernel.matched(*runs, side), flags_of(runs[side], found[side]))


def case_scripts(windows_of=("rows", "interval"), **options):
    """A condition with a time or without one, and the rows of both sides; no row is late."""
    drawn = scripts(windows_of=windows_of, self_joins=False, max_size=40, **options)

    def endless(script):
        spec, rows = script
        window = spec.window
        return replace(spec, window=replace(window, lateness=None) if spec.timed else ALL), rows

    return drawn.map(endless)


# --- The reference ---


@settings(max_examples=4000 if LONG else 150, deadline=None)
@given(script=case_scripts(), limit=st.sampled_from(LIMITS), level=st.sampled_from(_core.levels()))
def test_the_reference_agrees(script, limit, level):
    with isa.use(level):
        check(*script, limit)


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_and_condition(kind, timed):
    """Each predicate of a kind alone, and behind an equality."""

    @settings(max_examples=150 if LONG else 12, deadline=None)
    @given(
        script=case_scripts(["interval" if timed else "rows"], kinds=(kind,), most=2),
        equal=st.booleans(),
        limit=st.sampled_from(LIMITS),
    )
    def agrees(script, equal, limit):
        spec, rows = script
        if equal and "equal" not in {part.op for part in spec.on}:
            spec = replace(spec, on=(*spec.on, Condition("equal", "int8")))
            rows = [row._replace(key=(*row.key, number % 2)) for number, row in enumerate(rows)]
        check(spec, rows, limit)

    agrees()


@pytest.mark.parametrize("sizes", [(0, 0), (0, 3), (3, 0)])
@pytest.mark.parametrize("on", [("band", ((-1, 1),)), ("equal", ()), ("not_equal", ())])
def test_empty_runs(sizes, on):
    spec = Spec(on=(Condition(on[0], "int64", on[1]),), window=ALL)
    rows = [Row(side, (1,), None) for side in (0, 1) for _ in range(sizes[side])]
    kernel, runs, _ = runs_of(spec, rows)
    assert list(kernel.pairs(*runs, 5)) == []
    for side in (0, 1):
        assert kernel.matched(*runs, side).tolist() == [False] * sizes[side]


def test_texts_of_one_hash_are_candidates():
    one, other = ONE_HASH[0]
    check(
        Spec(on=(Condition("equal", "string"),), window=ALL),
        [Row(0, (one,), None), Row(1, (other,), None)],
        9,
    )


def test_ends_of_the_types():
    """Keys at both ends of a type, where neither sums nor searches may wrap around."""
    for name in ("int8", "int32", "int64", "uint8", "uint16", "uint64"):
        limits = np.iinfo(name)
        ends = [limits.min, limits.min + 1, limits.max - 1, limits.max]
        rows = [Row(side, (value,), None) for side in (0, 1) for value in ends for _ in range(20)]
        for ranges in [((-1, 1),), ((0, 2**66),), ((-(2**66), 0),), ((-2, -1), (1, 1))]:
            op = "band" if len(ranges) == 1 else "bands"
            check(Spec(on=(Condition(op, name, ranges),), window=ALL), rows, 1000)


# --- Many rows: vectors, blocks of probing rows, and galloping ---


def numbers_of(seed, count, most, type_=np.int64):
    return np.random.default_rng(seed).integers(0, most, count).astype(type_)


def brute(left, right, holds):
    """All pairs of two tables of columns, by a condition on them."""
    found = [
        np.stack([np.full(np.count_nonzero(hits), i), np.flatnonzero(hits)])
        for i in range(len(left[0]))
        if (hits := holds([column[i] for column in left], right)).any()
    ]
    return np.concatenate([np.empty((2, 0), np.int64), *found], axis=1)


ON = {
    "band": (sj.band("a", lower=-20, upper=30), lambda a, b: (b[0] >= a[0] - 20) & (b[0] <= a[0] + 30)),
    "equal": (sj.equal("a"), lambda a, b: b[0] == a[0]),
    "less, far": (sj.less("a", offset=99_000), lambda a, b: b[0] > a[0] + 99_000),
    "bands": (
        sj.bands("a", ranges=[(-90, -50), (4, 30)]),
        lambda a, b: ((b[0] >= a[0] - 90) & (b[0] <= a[0] - 50)) | ((b[0] >= a[0] + 4) & (b[0] <= a[0] + 30)),
    ),
    "band, tested": (
        sj.band("a", within=300) & sj.not_equal("b") & sj.band("c", within=20_000),
        lambda a, b: (abs(b[0] - a[0]) <= 300) & (b[1] != a[1]) & (abs(b[2] - a[2]) <= 20_000),
    ),
    "equal and band": (
        sj.equal("b") & sj.band("a", within=400),
        lambda a, b: (b[1] == a[1]) & (abs(b[0] - a[0]) <= 400),
    ),
    "equalities": (sj.equal("b") & sj.equal("c"), lambda a, b: (b[1] == a[1]) & (b[2] == a[2])),
}
SIZES = [(3, 20_000), (20_000, 3), (700, 9_000), (5_000, 5_000)]


def table_of(seed, size):
    return pa.table(
        {
            name: numbers_of(seed + i, size, most)
            for i, (name, most) in enumerate((("a", 100_000), ("b", 40), ("c", 50_000)))
        }
    )


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("name", ON)
def test_many_rows(name, sizes):
    on, holds = ON[name]
    tables = [table_of(10 * side, size) for side, size in enumerate(sizes)]
    if name == "equalities":
        tables = [table.set_column(2, "c", pa.array(np.asarray(table["c"]) % 200)) for table in tables]
    values = [[np.asarray(column) for column in table.columns] for table in tables]
    wanted = brute(*values, holds)
    kernel = kernel_of(on, [table.schema for table in tables])
    (left, left_order), (right, right_order) = (run_of(kernel, table, i) for i, table in enumerate(tables))
    for limit in (1000, 10**9):
        found = chunks_of(kernel, left, right, limit)
        pairs = np.stack([left_order[found[0]], right_order[found[1]]])
        assert np.array_equal(pairs[:, np.lexsort(pairs[::-1])], wanted)
    for side, run in enumerate((left, right)):
        assert np.array_equal(kernel.matched(left, right, side), flags_of(run, found[side]))


@pytest.mark.parametrize("limit", [1, 999, 1000, 1001, 10**7])
@pytest.mark.parametrize("on", [sj.equal("a"), sj.equal("a") & sj.equal("b"), sj.band("a", within=0)])
def test_all_keys_are_equal(on, limit):
    table = pa.table({"a": np.full(50, 7), "b": np.full(50, 8)})
    kernel = kernel_of(on, [table.schema] * 2)
    runs = [run_of(kernel, pa.concat_tables([table] * times), side)[0] for side, times in enumerate((1, 3))]
    found = chunks_of(kernel, *runs, limit)
    assert len(set(zip(*found, strict=True))) == len(found[0]) == 50 * 150
    assert kernel.matched(*runs, 0).all()
    assert kernel.matched(*runs, 1).all()


def test_one_row_with_many_partners():
    tables = pa.table({"a": [5]}), pa.table({"a": np.arange(300_000)})
    kernel = kernel_of(sj.less("a"), [table.schema for table in tables])
    runs = [run_of(kernel, table, side)[0] for side, table in enumerate(tables)]
    found = chunks_of(kernel, *runs, 1000)
    assert np.array_equal(found[1], np.arange(6, 300_000))
    assert kernel.matched(*runs, 1).sum() == len(found[1])


# --- Where the arrays lie ---


def test_mapped_files_are_read_in_place(tmp_path):
    tables = [table_of(0, 300), table_of(7, 50_000)]
    kernel = kernel_of(ON["equal and band"][0], [table.schema for table in tables])
    runs = [run_of(kernel, table, side)[0] for side, table in enumerate(tables)]
    wanted = chunks_of(kernel, *runs, 10**6)
    mapped = []
    for side, run in enumerate(runs):
        arrays = []
        for number, array in enumerate((run.keys, *run.columns)):
            path = tmp_path / f"{side}_{number}"
            array.tofile(path)
            arrays.append(np.memmap(path, array.dtype, "r"))
        mapped.append(Run(arrays[0], arrays[1:]))
    assert np.array_equal(chunks_of(kernel, *mapped, 10**6), wanted)
    for side in (0, 1):
        assert np.array_equal(kernel.matched(*mapped, side), kernel.matched(*runs, side))


def test_unsorted_keys_do_no_harm():
    """Damaged keys give wrong pairs, and nothing worse."""
    tables = [table_of(0, 500), table_of(7, 5000)]
    random = np.random.default_rng(3)
    for on, _ in ON.values():
        kernel = kernel_of(on, [table.schema for table in tables])
        runs = [run_of(kernel, table, side)[0] for side, table in enumerate(tables)]
        damaged = runs[1]._replace(keys=random.permutation(runs[1].keys))
        for left, right in itertools.islice(kernel.pairs(runs[0], damaged, 1000), 20):
            assert left.max() < 500
            assert right.max() < 5000
        for side in (0, 1):
            kernel.matched(runs[0], damaged, side)


def test_an_unfinished_reader_keeps_its_arrays():
    tables = [table_of(0, 500), table_of(7, 5000)]
    kernel = kernel_of(ON["band"][0], [table.schema for table in tables])
    runs = [run_of(kernel, table, side)[0] for side, table in enumerate(tables)]
    wanted = chunks_of(kernel, *runs, 10**6)
    copies = [Run(run.keys.copy(), [column.copy() for column in run.columns]) for run in runs]
    reader = kernel.pairs(*copies, 100)
    chunks = [next(reader)]
    for copy in copies:
        copy.columns.clear()
    del kernel, copies
    chunks += reader
    assert np.array_equal(np.concatenate(chunks, axis=1), wanted)


@pytest.mark.parametrize("level", _core.levels())
def test_a_run_that_does_not_fit_is_refused(level):
    with isa.use(level):
        table = pa.table({"a": np.arange(9)})
        kernel = kernel_of(sj.equal("a"), [table.schema] * 2)
        run, _ = run_of(kernel, table, 0)
    unaligned = np.frombuffer(bytes(8 * 9 + 1), np.uint8)[1:].view(np.uint64)
    for wrong in (
        run._replace(keys=run.keys.astype(np.uint32)),
        run._replace(keys=unaligned),
        run._replace(keys=np.repeat(run.keys, 2)[::2]),
        run._replace(columns=[unaligned.view(np.int64)]),
        run._replace(columns=[run.columns[0][1:]]),
        run._replace(columns=[run.columns[0].astype(np.float64)]),
        run._replace(columns=[]),
    ):
        with pytest.raises(TypeError):
            next(kernel.pairs(run, wrong, 5))
        with pytest.raises(TypeError):
            kernel.matched(wrong, run, 0)
    with pytest.raises(SpecError, match="limit=0; expected a whole number, 1 at least"):
        next(kernel.pairs(run, run, 0))
    with pytest.raises(ValueError, match="side"):
        kernel.matched(run, run, 2)
