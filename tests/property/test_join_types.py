"""Join types: the rows that each returns besides the pairs do not depend on index, batches or order.

Every property runs with probe-only rows (`store=False`) mixed in; its inputs are long, so the short form has
fewer examples than elsewhere.
"""

import dataclasses
import itertools
import os
import random
from collections import Counter

import pytest
from cases import INDEXES
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from property.test_window_join import EXACT, mirrored
from window_cases import (
    HOWS,
    KINDS,
    ONE_HASH,
    ORDERS,
    TIMES,
    Condition,
    Model,
    Row,
    Spec,
    expected,
    id_pairs,
    parts,
    push,
    run,
    scripts,
)

from slidejoin import isa, reference
from slidejoin.reference import Interval, Rows, Within

LONG = os.environ.get("SLIDEJOIN_TESTS") == "long"
EFFORT = settings(max_examples=settings().max_examples // (1 if LONG else 3))
TEXTS = tuple(name for name, kind in KINDS.items() if kind.is_text)


@st.composite
def typed_scripts(draw, *, hows=HOWS, **options):
    """A spec of some join type, its input, and the numbers of the rows that only probe.

    Left to itself hypothesis draws few rows or none, of which one in ten inputs has a match: most are longer.
    """
    fewest = draw(st.sampled_from([0, 12, 25, 25]))
    spec, rows = draw(scripts(hows=hows, self_joins=False, min_size=fewest, **options))
    numbers = st.integers(0, len(rows))
    few = st.sets(numbers, max_size=4)
    of_a_side = st.sampled_from([{n for n, row in enumerate(rows) if row.side == side} for side in (0, 1)])
    return spec, rows, draw(st.one_of(st.just(set()), few, st.sets(numbers), of_a_side))


def fully_ordered(spec, **changes):
    return dataclasses.replace(spec, order="full", **changes)


def flat(chunks):
    return [result for chunk in chunks for result in chunk]


# --- Against the reference ---


@EFFORT
@given(typed_scripts())
def test_equals_the_reference_with_every_index(script):
    spec, rows, probes = script
    wanted, wanted_counters = expected(spec, rows, probes=probes)
    made = parts(spec, rows, probes=probes)
    for index, order in itertools.product(INDEXES, ORDERS):
        found, stats = run(spec, rows, made=made, index=index, order=order)
        assert reference.agrees(found, wanted, order, spec.how), (index, order, found, wanted)
        assert stats == wanted_counters


@EFFORT
@given(typed_scripts(kinds=("int8", "string"), most=1))
def test_rows_come_out_at_the_earliest_moment(script):
    """With the very arrival that made them final, and not one sooner: every push is compared."""
    spec, rows, probes = script
    spec = fully_ordered(spec)
    join, model = spec.join(known=True), Model(spec)
    for number, row in enumerate(rows):
        wanted = model.push([row], [number], store=number not in probes)
        assert push(spec, join, [row], [number], probes=probes) == flat(wanted)


COLLIDING = dict(zip(["", "a", "A", "ab"], itertools.chain(*ONE_HASH), strict=True))


@EFFORT
@given(typed_scripts(kinds=TEXTS), st.sampled_from(INDEXES))
def test_texts_whose_hashes_collide_are_no_partners(script, index):
    """A candidate whose value differs neither matches nor keeps a row from coming out unmatched."""
    spec, rows, probes = script

    def colliding(part):
        if isinstance(part, bytes):
            return COLLIDING.get(part.decode(), part.decode()).encode()
        return COLLIDING.get(part, part)

    rows = [row._replace(key=tuple(map(colliding, row.key))) for row in rows]
    wanted, wanted_counters = expected(spec, rows, probes=probes)
    for splits in ((), range(1, len(rows))):
        found, stats = run(spec, rows, splits=splits, probes=probes, index=index)
        assert reference.agrees(found, wanted, spec.order, spec.how), (found, wanted)
        assert stats == wanted_counters


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(
    "window",
    [
        Rows(80, 50),
        Within(60),
        Within(60, "self"),
        Interval(15, 25, 12, "return"),
        Interval(-5, 25, 6),
    ],
    ids=str,
)
def test_long_streams(window, how):
    """Enough rows for trees and row stores to turn over; one big batch equals many of odd sizes."""
    choose = random.Random(str(window))
    rows, now = [], 0
    for _ in range(500):
        now += choose.choice((0, 1, 1, 2))
        ts = now - choose.randrange(20) if isinstance(window, Interval) else now
        part = choose.choice((None, *range(40))), choose.choice(("a", "b", "c"))
        rows.append(Row(int(choose.random() < 0.4), part, None if choose.random() < 0.01 else ts))
    probes = {number for number in range(len(rows)) if number // 20 % 4 == 3}
    on = (Condition("band", "int32", ((-1, 1),)), Condition("not_equal", "string"))
    spec = Spec(on, window, "us", how=how)
    wanted, counters = expected(spec, rows, probes=probes)
    batches = {
        splits: parts(spec, rows, splits=splits, probes=probes)
        for splits in ((), range(37, 500, 37), range(1, 500))
    }
    for index, order in itertools.product(INDEXES, ORDERS):
        for splits, made in batches.items():
            if len(splits) > 50 and (index, order) != ("b-tree", "full") and not LONG:
                continue  # row by row in the one order that leaves nothing open
            found, stats = run(spec, rows, made=made, index=index, order=order, checked=len(splits) < 50)
            assert reference.agrees(found, wanted, order, how), (index, order, splits)
            assert stats == counters
    assert counters["matches"] > 30
    assert how == "inner" or len(flat(wanted)) > (3 if how == "right_anti" else 20)  # few right rows


# --- What must not matter ---


@EFFORT
@given(typed_scripts(), st.data())
def test_any_split_into_batches(script, data):
    spec, rows, probes = script
    spec = fully_ordered(spec)
    whole = run(spec, rows, probes=probes)
    splits = data.draw(st.lists(st.integers(0, len(rows)), max_size=6))
    assert run(spec, rows, splits=splits, probes=probes) == whole
    assert run(spec, rows, splits=range(1, len(rows)), probes=probes, checked=False) == whole


@EFFORT
@given(typed_scripts(), st.data())
def test_one_sided_batches_say_the_same_as_arrivals(script, data):
    """Also while the other side is not known: rows held back come out later, and in the same place."""
    spec, rows, probes = script
    spec = fully_ordered(spec)
    whole = run(spec, rows, probes=probes)
    splits = data.draw(st.lists(st.integers(0, len(rows)), max_size=4))
    for known in (True, False):
        assert run(spec, rows, splits=splits, one_sided=True, known=known, probes=probes) == whole


@EFFORT
@given(typed_scripts(max_size=100))
def test_any_instruction_set(script):
    spec, rows, probes = script
    spec = fully_ordered(spec)
    made = parts(spec, rows, probes=probes)
    wanted = run(spec, rows, level="portable", index="nested-loop", made=made, checked=False)
    for level, index in itertools.product(isa.available(), INDEXES):
        found = run(spec, rows, level=level, index=index, made=made, checked=False)
        assert found == wanted, (level, index)


OTHER_SIDE = {"inner": "inner", "full": "full", "left": "right"}
OTHER_SIDE |= {f"left_{how}": f"right_{how}" for how in ("semi", "anti")}
OTHER_SIDE |= {other: how for how, other in OTHER_SIDE.items()}


@EFFORT
@given(typed_scripts(kinds=EXACT))
def test_sides_swapped(script):
    """The left join of (L, R) is the right join of (R, L); the same for semi and anti joins."""
    spec, rows, probes = script
    assume(not spec.timed or not TIMES[spec.time].mixed)
    spec = fully_ordered(spec)
    found, stats = run(spec, rows, probes=probes)
    turned = [Row(1 - row.side, row.key, row.ts) for row in rows]
    other = dataclasses.replace(mirrored(spec), how=OTHER_SIDE[spec.how])
    swapped, swapped_stats = run(other, turned, probes=probes)
    swapped = [(right, left) for left, right in swapped]
    if spec.how == "full":  # rows that one arrival made final: left ones first in either join
        assert Counter(swapped) == Counter(found)
    else:
        assert swapped == found
    assert swapped_stats["watermark"] == stats["watermark"]
    for name in ("rows", "late", "null", "stored"):
        assert swapped_stats[f"{name}_left"] == stats[f"{name}_right"]
        assert swapped_stats[f"{name}_right"] == stats[f"{name}_left"]


# --- How the types hang together ---


@EFFORT
@given(typed_scripts(hows=("inner",)))
def test_relations_between_the_types(script):
    spec, rows, probes = script
    made = parts(spec, rows, probes=probes)
    runs = {how: run(fully_ordered(spec, how=how), rows, made=made) for how in HOWS}
    results = {how: found for how, (found, _) in runs.items()}
    stats = runs["inner"][1]
    assert all(other == stats for _, other in runs.values())  # matches are pairs in every type

    inner = results["inner"]
    assert stats["matches"] == len(inner) == len({*inner})
    for how in ("left", "right", "full"):
        assert [pair for pair in results[how] if None not in pair] == inner

    lone_left = [left for left, right in results["left"] if right is None]
    lone_right = [right for left, right in results["right"] if left is None]
    assert [left for left, right in results["full"] if right is None] == lone_left
    assert [right for left, right in results["full"] if left is None] == lone_right

    for side, (name, lone) in enumerate((("left", lone_left), ("right", lone_right))):
        semi, anti = ([pair[side] for pair in results[f"{name}_{how}"]] for how in ("semi", "anti"))
        assert semi == list(dict.fromkeys(pair[side] for pair in inner))
        assert anti == lone
        assert stats[f"rows_{name}"] == len(semi) + len(anti) == len({*semi, *anti})


@EFFORT
@given(typed_scripts(hows=("left", "full", "left_semi", "left_anti")))
def test_left_rows_that_only_probe_are_settled_by_their_own_push(script):
    """A lookup: the answer to each left row comes with it, and nothing of it is kept."""
    spec, rows, _ = script
    spec = fully_ordered(spec)
    lefts = {number for number, row in enumerate(rows) if row.side == 0}
    join = spec.join(known=True)
    for number, row in enumerate(rows):
        before = join.stats
        found = push(spec, join, [row], [number], probes=lefts)
        stats = join.stats
        assert {left for left, _ in found if left is not None} <= {number}
        assert stats["stored_left"] == 0
        if row.side == 0 and stats["rows_left"] > before["rows_left"]:
            matches = stats["matches"] - before["matches"]
            lines = sum(left is not None for left, _ in found)
            wanted = {"left_semi": min(matches, 1), "left_anti": int(not matches)}
            assert lines == wanted.get(spec.how, max(matches, 1))
    assert all(left is None for left, _ in id_pairs(spec, join.finish()))
