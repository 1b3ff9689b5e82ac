"""Picked columns: the results are those of the whole join with these columns selected, in every setting."""

import dataclasses
import functools
import operator
import os

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from window_cases import HOWS, SIDES, parts, scripts

import slidejoin as sj
from slidejoin.columns import output_schema
from slidejoin.join_type import JOIN_TYPES

LONG = os.environ.get("SLIDEJOIN_TESTS") == "long"
EFFORT = settings(max_examples=settings().max_examples // (1 if LONG else 2))
SUFFIXES = (("", "_right"), ("_l", "_r"), ("_", ""))


def names_of(spec, suffixes):
    """All columns of a result."""
    sides = spec.schema(0), spec.schema(0 if spec.self_join else 1)
    return output_schema(*sides, suffixes, JOIN_TYPES[spec.how].only).names


def picks(names):
    """Some names, in any order."""
    return st.permutations(names).flatmap(
        lambda mixed: st.integers(1, len(mixed)).map(lambda count: mixed[:count])
    )


def agree(picked, whole, columns):
    """Whether a result has what the whole one has in these columns; those that are not known yet are left."""
    if all(name in whole.column_names for name in columns):
        whole = whole.select(columns)
    else:  # the end of a join of which one side never came, or no side is known
        whole = whole.select(picked.column_names)
    assert picked.column_names == whole.column_names
    assert picked.num_rows == whole.num_rows
    assert repr(picked.to_pylist()) == repr(whole.to_pylist())  # NaN, too
    assert picked.schema.equals(whole.schema)


@EFFORT
@given(scripts(hows=HOWS, max_size=30), st.data())
def test_results_have_the_picked_columns_of_whole_ones(script, data):
    spec, rows = script
    spec = dataclasses.replace(spec, order="full")
    suffixes = data.draw(st.sampled_from(SUFFIXES))
    columns = data.draw(picks(names_of(spec, suffixes)))
    one_sided = not spec.self_join and data.draw(st.booleans())
    # Sides of other names that come together first are taken to have all of them.
    known = data.draw(st.booleans()) or not (spec.one_name or one_sided)
    splits = data.draw(st.lists(st.integers(0, len(rows)), max_size=4))
    options = {"known": known, "suffixes": suffixes}
    whole, picked = spec.join(**options), spec.join(columns=columns, **options)
    grown_alike = True
    for part in parts(spec, rows, splits=splits, one_sided=one_sided):
        for batch, given_ in part:
            agree(picked.push(*batch, **given_), whole.push(*batch, **given_), columns)
        if data.draw(st.booleans()):
            picked = sj.WindowJoin.restore(picked.snapshot())
            grown_alike = False  # its buffers grow from the size that they are restored with
        picked.check()
        mine, theirs = picked.stats, whole.stats
        memory, whole_memory = mine.pop("memory_bytes"), theirs.pop("memory_bytes")
        assert memory <= whole_memory or not grown_alike
        assert mine == theirs
        if whole.spec.window.returns_late:
            for side in SIDES[: 1 if spec.self_join else 2]:
                late = picked.take_late(side)
                agree(late, whole.take_late(side), late.column_names)
    agree(picked.finish(), whole.finish(), columns)


@EFFORT
@given(scripts(hows=HOWS, windows_of=("rows",), self_joins=False, max_size=30), st.data())
def test_two_tables(script, data):
    spec, rows = script
    suffixes = data.draw(st.sampled_from(SUFFIXES))
    columns = data.draw(picks(names_of(spec, suffixes)))
    numbers = [[number for number, row in enumerate(rows) if row.side == side] for side in (0, 1)]
    left, right = (spec.table(i, [rows[n] for n in numbers[i]], numbers[i]) for i in (0, 1))
    named = zip(spec.on, spec.names(0), spec.names(1), strict=False)
    on = functools.reduce(operator.and_, (part.predicate(a, b) for part, a, b in named))
    whole = sj.join(left, right, on, spec.how, suffixes=suffixes)
    agree(sj.join(left, right, on, spec.how, suffixes=suffixes, columns=columns), whole, columns)


def test_columns_of_every_kind_of_keeper():
    """Nested and encoded columns are not in the core's store, and stand between those that are."""
    count = 50
    left = pa.table(
        {
            "k": [i % 5 for i in range(count)],
            "list": [[i] * (i % 3) for i in range(count)],
            "text": [f"text {i}" for i in range(count)],
            "code": pa.array([f"c{i % 4}" for i in range(count)]).dictionary_encode(),
            "view": pa.array([f"v{i}" for i in range(count)], pa.string_view()),
        }
    )
    right = left.slice(0, 11)
    names = output_schema(left.schema, right.schema).names
    for columns in (names[::-1], names[1::2], ["view_right", "list", "code"], ["list_right"], ["k"]):
        results = []
        for picked in (None, columns):
            join = sj.WindowJoin(sj.equal("k"), 20, "full", columns=picked, order="full")
            results.append(sj.concat([join.push(left=left), join.push(right=right), join.finish()]))
        agree(results[1], results[0], columns)
