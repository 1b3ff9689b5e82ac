"""Predicates: what they hold, how they read, what they refuse."""

import json
import math
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin import predicate
from slidejoin.errors import SpecError
from slidejoin.predicate import (
    COMPARISONS,
    Predicate,
    band,
    bands,
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    not_equal,
)

NAMES = {name: getattr(predicate, name) for name in (*COMPARISONS, "band", "bands")} | {"Fraction": Fraction}


def only(made):
    (conjunct,) = made.conjuncts
    return conjunct


def test_within_is_a_symmetric_band():
    conjunct = only(band("price", within=0.5))
    assert (conjunct.op, conjunct.left, conjunct.right) == ("band", "price", "price")
    assert conjunct.ranges == ((Fraction(-1, 2), Fraction(1, 2)),)
    assert not conjunct.timed
    assert band("price", within=0.5) == band("price", "price", lower=-0.5, upper=0.5)


def test_both_columns():
    conjunct = only(band("x", "y", lower=-3, upper=10))
    assert (conjunct.left, conjunct.right, conjunct.ranges) == ("x", "y", ((-3, 10),))


def test_one_bound_leaves_the_other_end_open():
    assert only(band("x", lower=5)).ranges == ((5, None),)
    assert only(band("x", upper="5s")).ranges == ((None, 5 * 10**9),)
    assert only(band("x", upper="5s")).timed


def test_an_offset_is_added_to_the_left_column():
    """``left + offset < right`` begins a half line of right keys, ``left + offset > right`` ends one."""
    assert only(less("x", offset=5)).ranges == only(less_equal("x", offset=5)).ranges == ((5, None),)
    assert only(greater("x", offset=5)).ranges == only(greater_equal("x", offset=5)).ranges == ((None, 5),)
    assert less("x", offset=0) == less("x") == less("x", offset="0s")
    assert less("x", offset=1) != less_equal("x", offset=1)
    with pytest.raises(TypeError):
        equal("x", offset=5)


@pytest.mark.parametrize("op", COMPARISONS)
def test_comparisons(op):
    made = getattr(predicate, op)
    assert (only(made("a")).op, only(made("a")).right, only(made("a", "b")).right) == (op, "a", "b")
    assert only(made("a")).ranges == ()
    assert repr(made("a")) == f"{op}('a')"
    assert repr(made("a", "b")) == f"{op}('a', 'b')"


def test_zero_is_a_duration_beside_durations():
    assert band("x", lower=0, upper="5min") == band("x", lower="0s", upper="5min")
    assert band("x", lower="-5s", upper=0) == band("x", lower="-5s", upper="0s")
    assert bands("x", ranges=[(0, "5s"), (0, 0)]) == bands("x", ranges=[("0s", "5s"), ("0s", "0s")])
    assert band("x", within=0) != band("x", within="0s")
    assert Predicate.from_json(band("x", lower=0, upper="5s").to_json()) == band("x", lower=0, upper="5s")


def test_and_concatenates():
    three = equal("a") & band("b", within=1) & less("c", "d")
    assert [part.op for part in three.conjuncts] == ["equal", "band", "less"]
    assert three == equal("a") & (band("b", within=1) & less("c", "d"))
    assert three != less("c", "d") & equal("a") & band("b", within=1)
    with pytest.raises(SpecError, match="True is not a predicate"):
        equal("a") & True
    with pytest.raises(SpecError, match="combine predicates with &, not with 'and'"):
        bool(equal("a"))


@pytest.mark.parametrize(
    ("bound", "exact", "timed"),
    [
        (3, 3, False),
        (0.3, Fraction(3, 10), False),
        (1e-320, Fraction("1e-320"), False),
        (-0.0, 0, False),
        (Fraction(1, 3), Fraction(1, 3), False),
        (Decimal("0.125"), Fraction(1, 8), False),
        (np.int8(-5), -5, False),
        (np.uint64(2**64 - 1), 2**64 - 1, False),
        (np.float32(0.5), Fraction(1, 2), False),
        (np.float32(0.1), Fraction("0.10000000149011612"), False),
        (np.float64(0.1), Fraction(1, 10), False),
        (2**2000, 2**2000, False),
        ("5s", 5 * 10**9, True),
        ("-2s", -2 * 10**9, True),
        (" 1.5 h ", 5400 * 10**9, True),
        ("0.5ns", Fraction(1, 2), True),
        ("1/3s", Fraction(10**9, 3), True),
        ("1e3ms", 10**9, True),
        (timedelta(microseconds=-7), -7000, True),
        (pd.Timedelta("1500ns"), 1500, True),
        (pd.Timedelta("-1500ns"), -1500, True),
        (np.timedelta64(5, "s"), 5 * 10**9, True),
        (np.timedelta64(-2, "D"), -2 * 86400 * 10**9, True),
    ],
)
def test_bounds_are_exact(bound, exact, timed):
    conjunct = only(band("x", lower=bound, upper=bound))
    assert conjunct.ranges == ((exact, exact),)
    assert conjunct.timed is timed
    assert all(type(end.numerator) is int for end in conjunct.ranges[0])


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (band("price", within=0.5), "band('price', within=0.5)"),
        (band("price", within=2.0), "band('price', within=2)"),
        (band("x", "y", lower=-3, upper=10), "band('x', 'y', lower=-3, upper=10)"),
        (band("x", lower=0, upper=Fraction(1, 3)), "band('x', lower=0, upper=Fraction(1, 3))"),
        (band("x", within="90s"), "band('x', within='90s')"),
        (band("x", lower="-2s", upper="1500us"), "band('x', lower='-2s', upper='1500us')"),
        (band("x", lower="-0.5ns", upper="1d"), "band('x', lower='-1/2ns', upper='1d')"),
        (band("x", lower=timedelta(0), upper="2min"), "band('x', lower='0s', upper='2min')"),
        (bands("a", "b", ranges=[(-5, 5), (20, 35)]), "bands('a', 'b', ranges=[(-5, 5), (20, 35)])"),
        (band("x", lower=5), "band('x', lower=5)"),
        (band("x", "y", upper="-5s"), "band('x', 'y', upper='-5s')"),
        (less("x", offset=0.5), "less('x', offset=0.5)"),
        (greater_equal("x", "y", offset=timedelta(seconds=-1)), "greater_equal('x', 'y', offset='-1s')"),
        (less_equal("x", offset=Fraction(1, 3)), "less_equal('x', offset=Fraction(1, 3))"),
        (greater("x", offset=0.0), "greater('x')"),
        (equal("it's") & not_equal("b", "c"), "equal(\"it's\") & not_equal('b', 'c')"),
    ],
)
def test_repr_reads_like_the_call(made, text):
    assert repr(made) == text
    assert eval(text, NAMES) == made


def test_equality_and_hash_by_value():
    same = [band("x", within=w) for w in (1, 1.0, Decimal("1.00"), Fraction(1), np.int16(1))]
    assert len(set(same)) == 1
    assert band("x", within="1min") == band("x", within=timedelta(seconds=60))
    assert band("x", within="1ns") != band("x", within=1)
    assert band("x", within=1) != band("x", "y", within=1)
    assert less("x") != greater_equal("x")
    assert less("x") != "less('x')"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (
            lambda: band("x", lower=3, upper=1),
            "band lower 3 > upper 1; bounds are on right - left, swap them",
        ),
        (lambda: band("x", lower="3s", upper="1s"), "band lower 3s > upper 1s; bounds are on right - left"),
        (lambda: band("x", within=-1), "band within -1 is negative; expected a distance of 0 or more"),
        (lambda: band("x", within="-1s"), "band within -1s is negative"),
        (lambda: band("x", within=math.nan), "band within is nan; bounds must be finite"),
        (lambda: band("x", lower=-math.inf, upper=0), "band lower is -inf; bounds must be finite"),
        (lambda: band("x", lower=0, upper=Decimal("sNaN")), "band upper is sNaN; bounds must be finite"),
        (lambda: band("x", lower=0, upper=np.float32("inf")), "band upper is inf; bounds must be finite"),
        (lambda: band("x", within=Decimal("1e999999999")), "beyond the range of every key"),
        (lambda: band("x", within=10**5000), "beyond the range of every key"),
        (lambda: band("x", within=True), "band within is True; expected a number"),
        (lambda: band("x", within=[1]), "band within is [1]; expected a number"),
        (lambda: band("x", within="5"), "band within: duration '5' is not a number with a unit; write '10s'"),
        (lambda: band("x", within="1/0s"), "is not a number with a unit"),
        (lambda: band("x", within="1e400000000s"), "is not a number with a unit"),
        (lambda: band("x", within=np.timedelta64("NaT", "s")), "has no length"),
        (lambda: band("x", within=np.timedelta64(1, "M")), "has no length"),
        (lambda: band("x"), "band got no bound; give within=..., lower=..., upper=... or both of them"),
        (lambda: band("x", lower=math.inf), "band lower is inf; bounds must be finite"),
        (lambda: band("x", upper="5 weeks"), "band upper: duration '5 weeks'"),
        (lambda: bands("x", ranges=[(None, 5)]), "bands ranges[0] lower is None; expected a number"),
        (lambda: less("x", offset=math.nan), "less offset is nan; bounds must be finite"),
        (lambda: greater_equal("x", offset=None), "greater_equal offset is None; expected a number"),
        (lambda: greater("x", offset=True), "greater offset is True; expected a number"),
        (lambda: band("x", within=1, lower=1), "band got within and lower or upper; give within=0.5 or"),
        (lambda: band("x", within=1, upper=1), "band got within and lower or upper"),
        (
            lambda: band("x", lower=1, upper="5s"),
            "band lower 1 and upper '5s' mix a plain number and a duration; give both a unit, such as '1s'",
        ),
        (lambda: band("x", lower="-5s", upper=2), "mix a plain number and a duration"),
        (lambda: bands("x", ranges=[]), "bands got no ranges; give at least one"),
        (lambda: bands("x", ranges=[(1, 2), (5, 3)]), "bands ranges[1] lower 5 > upper 3"),
        (lambda: bands("x", ranges=[(1, 2), 5]), "bands ranges[1] is 5; expected a pair (lower, upper)"),
        (lambda: bands("x", ranges=[(1, 2, 3)]), "expected a pair"),
        (lambda: bands("x", ranges=[(1, math.nan)]), "bands ranges[0] upper is nan"),
        (lambda: bands("x", ranges=[(1, 2), ("1s", "2s")]), "mix plain numbers and durations"),
        (lambda: bands("x", ranges=[(0, 2), ("1s", "2s")]), "mix plain numbers and durations"),
        (lambda: bands("x", ranges="ab"), "expected pairs"),
        (lambda: bands("x", ranges=7), "expected pairs"),
        (lambda: equal(3), "equal left is 3; expected the name of a column"),
        (lambda: less("a", 3), "less right is 3; did you mean less('a', offset=3)?"),
        (lambda: equal("a", 3), "equal right is 3; expected the name of a column"),
        (lambda: band("a", 0.5), "band right is 0.5; did you mean band('a', within=0.5)?"),
        (lambda: band("a", Decimal(1)), "did you mean band('a', within=Decimal('1'))?"),
        (lambda: band("a", np.int8(1)), "did you mean band('a', within=np.int8(1))?"),
        (lambda: band("a", timedelta(1)), "did you mean band('a', within=datetime.timedelta(days=1))?"),
        (lambda: band("a", "5s"), "band right is '5s'; did you mean band('a', within='5s')?"),
        (lambda: band("a", "b"), "band got no bound"),
        (lambda: greater("a", np.timedelta64(1, "s")), "did you mean greater('a', offset=np.timedelta64(1,"),
        (lambda: equal(["a", "b"]), "equal left is ['a', 'b']; expected the name of a column"),
        (lambda: equal("a") & "b", "equal('a') & 'b'; 'b' is not a predicate, such as sj.equal('b')"),
        (lambda: "b" & equal("a"), "'b' & equal('a'); 'b' is not a predicate, such as sj.equal('b')"),
        (lambda: equal("a") & 5, "equal('a') & 5; 5 is not a predicate, such as sj.band("),
        (lambda: equal("a") & None, "equal('a') & None; None is not a predicate"),
        (lambda: "b" | equal("a"), "conditions are joined by & only"),
        (lambda: band(None, within=1), "band left is None; expected the name of a column"),
    ],
)
def test_a_senseless_predicate(make, says):
    with pytest.raises(SpecError) as error:
        make()
    assert says in str(error.value)


numbers = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.fractions(),
    st.decimals(allow_nan=False, allow_infinity=False, places=7),
)
durations = st.one_of(
    st.timedeltas(), st.builds("{}{}".format, st.fractions(), st.sampled_from(["ns", "us", "s", "h", "d"]))
)


def ordered(pair):
    return pair if only_ranges(band, pair) else pair[::-1]


def only_ranges(make, pair):
    try:
        make("x", lower=pair[0], upper=pair[1])
    except SpecError:
        return False
    return True


ranges = st.one_of(st.tuples(numbers, numbers), st.tuples(durations, durations)).map(ordered)
columns = st.text(max_size=5)
conjuncts = st.one_of(
    st.builds(
        lambda op, left, right: getattr(predicate, op)(left, right),
        st.sampled_from(COMPARISONS),
        columns,
        columns,
    ),
    st.builds(lambda left, right, r: band(left, right, lower=r[0], upper=r[1]), columns, columns, ranges),
    st.builds(
        lambda end, left, bound: band(left, **{end: bound}),
        st.sampled_from(["lower", "upper"]),
        columns,
        st.one_of(numbers, durations),
    ),
    st.builds(
        lambda op, left, right, offset: getattr(predicate, op)(left, right, offset=offset),
        st.sampled_from(COMPARISONS[2:]),
        columns,
        columns,
        st.one_of(numbers, durations),
    ),
    st.builds(
        lambda left, pairs: bands(left, ranges=pairs),
        columns,
        st.one_of(
            st.lists(st.tuples(numbers, numbers).map(ordered), min_size=1, max_size=4),
            st.lists(st.tuples(durations, durations).map(ordered), min_size=1, max_size=4),
        ),
    ),
)
predicates = st.lists(conjuncts, min_size=1, max_size=4).map(
    lambda parts: Predicate(tuple(part for p in parts for part in p.conjuncts))
)


@given(predicates)
def test_json_and_repr_keep_everything(made):
    text = json.dumps(made.to_json(), allow_nan=False)
    again = Predicate.from_json(json.loads(text))
    assert again == made
    assert hash(again) == hash(made)
    assert "." not in "".join(
        end or "" for part in made.to_json()["conjuncts"] for pair in part.get("ranges", ()) for end in pair
    )
    assert eval(repr(made), NAMES) == made


def test_the_json_form():
    made = equal("s") & band("x", "y", lower=-0.1, upper=Fraction(1, 3)) & band("t", within="5s")
    assert made.to_json() == {
        "conjuncts": [
            {"op": "equal", "left": "s", "right": "s"},
            {"op": "band", "left": "x", "right": "y", "ranges": [["-1/10", "1/3"]]},
            {"op": "band", "left": "t", "right": "t", "ranges": [["-5s", "5s"]]},
        ]
    }


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {"conjuncts": []},
        {"conjuncts": [{"op": "near", "left": "a", "right": "a"}]},
        {"conjuncts": [{"op": "equal", "left": "a"}]},
        {"conjuncts": [{"op": "equal", "left": 3, "right": "a"}]},
        {"conjuncts": [{"op": "equal", "left": "a", "right": "a", "ranges": [["1", "2"]]}]},
        {"conjuncts": [{"op": "less", "left": "a", "right": "a", "ranges": [["1", "2"]]}]},
        {"conjuncts": [{"op": "less", "left": "a", "right": "a", "ranges": [[None, "2"]]}]},
        {"conjuncts": [{"op": "greater", "left": "a", "right": "a", "ranges": []}]},
        {"conjuncts": [{"op": "band", "left": "a", "right": "a", "ranges": [[None, None]]}]},
        {"conjuncts": [{"op": "bands", "left": "a", "right": "a", "ranges": [[None, "1"]]}]},
        {"conjuncts": [{"op": "band", "left": "a", "right": "a", "ranges": []}]},
        {"conjuncts": [{"op": "band", "left": "a", "right": "a", "ranges": [["2", "1"]]}]},
        {"conjuncts": [{"op": "band", "left": "a", "right": "a", "ranges": [["1/0", "1"]]}]},
        {"conjuncts": [{"op": "band", "left": "a", "right": "a", "ranges": [["1e999999999", "1"]]}]},
        {"conjuncts": [{"op": "band", "left": "a", "right": "a", "ranges": [[1, 2]]}]},
    ],
)
def test_what_is_no_json_of_a_predicate(data):
    with pytest.raises(SpecError, match="is not the JSON form of a predicate"):
        Predicate.from_json(data)
