"""Windows: what they hold and what they refuse."""

import json
from datetime import timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin import window
from slidejoin.errors import SpecError
from slidejoin.window import Interval, Rows, Within, format_duration, interval, parse_duration, rows, within


def test_within_keeps_its_meaning():
    assert within(10) == Within(10, False, None, "cross")
    assert within("10s", time="ts") == Within(10 * 10**9, True, "ts", "cross")
    assert within(5, time=("a", "b"), purge="self").purge == "self"
    assert Within(5, False, None).purge == "cross"


def test_interval():
    made = interval("5s", "1s", time="ts", lateness="2s", late="return", idle_after="30s")
    assert made == Interval(5 * 10**9, 10**9, True, "ts", 2 * 10**9, "return", 30 * 10**9)
    assert interval(5, 1) == Interval(5, 1, False, None, None, "drop", None)
    assert interval(timedelta(seconds=5), np.timedelta64(1, "s")).before == 5 * 10**9


def test_zero_is_a_duration_beside_durations():
    assert interval(0, "5min", time="ts") == interval("0s", "5min", time="ts")
    assert interval("5s", 0, lateness=0) == interval("5s", "0s", lateness="0s")
    assert interval(0, 0, lateness="1s") == interval("0s", "0s", lateness="1s")
    assert not interval(0, 0).timed
    assert not interval(0, 5, lateness=0).timed
    assert repr(interval(0, "5s")) == "interval('0s', '5s')"


def test_either_bound_may_be_negative():
    assert interval(-1, 5).before == -1
    assert interval("5s", "-1s").after == -(10**9)
    assert interval(-3, 3) == Interval(-3, 3, False, None)
    assert interval(0, 0).after == 0


def test_time_columns():
    assert within(1, time=["a", "b"]).time == ("a", "b")
    assert within(1, time=("a", "a")) == within(1, time="a")
    assert interval(1, 1, time=("a", "b")).time == ("a", "b")


def test_nothing_of_a_duration_is_lost():
    assert within(pd.Timedelta("1500ns")).duration == 1500
    assert within(np.timedelta64(5, "s")) == within("5s")
    assert within(np.timedelta64(3, "25us")).duration == 75_000
    assert within(timedelta(days=10, microseconds=1)).duration == 864_000_000_001_000
    assert within("0.25us").duration == 250


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: within(1, purge="none"), "purge='none'; expected 'cross' or 'self'"),
        (lambda: within(1, time=3), "time=3; expected the name of a column or a pair"),
        (lambda: within(1, time=("a", "b", "c")), "expected the name of a column or a pair"),
        (lambda: within(1, time=("a", 2)), "expected the name of a column or a pair"),
        (lambda: within("10s 5s"), "write '10s'"),
        (lambda: within(True), "expected an int"),
        (lambda: within(np.timedelta64("NaT", "s")), "has no length"),
        (lambda: interval(-5, 4), "interval before=-5, after=4 is empty: -before is above after"),
        (lambda: interval("1s", "-2s"), "interval before='1s', after='-2s' is empty"),
        (lambda: interval(5, "1s"), "interval before 5 is a plain number while another part has a unit"),
        (lambda: interval("5s", 3), "interval after 3 is a plain number"),
        (lambda: interval(0, "5s", lateness=3), "interval lateness 3 is a plain number"),
        (lambda: interval("5s", "1s", lateness=2), "interval lateness 2 is a plain number"),
        (lambda: interval(5, 1, lateness="2s"), "give all of them units, such as '5s', or none"),
        (lambda: interval(5, 1, lateness=-1), "lateness -1 is negative; expected 0 or more"),
        (lambda: interval(5, 1, late="keep"), "late='keep'; expected 'drop' or 'return'"),
        (lambda: interval(5, 1, idle_after=30), "idle_after=30; expected a duration of the clock above 0"),
        (
            lambda: interval(5, 1, idle_after="0s"),
            "idle_after='0s'; expected a duration of the clock above 0",
        ),
        (lambda: interval(2**64, 1), "does not fit into 64 bits"),
        (lambda: interval(1, -(2**64)), "does not fit into 64 bits"),
        (lambda: interval(1.5, 2), "expected an int, a text such as '10s' or a timedelta"),
        (lambda: interval("0.5ns", "1s"), "before '0.5ns' is not a whole number of nanoseconds"),
        (lambda: interval(None, 1), "expected an int"),
        (lambda: within(np.arange(3)), "has type ndarray; expected an int"),
        (lambda: within(int), "has type type; expected an int"),
        (lambda: rows(np.arange(3)), "expected a whole number"),
    ],
)
def test_a_senseless_window(make, says):
    with pytest.raises(SpecError) as error:
        make()
    assert says in str(error.value)


amounts = st.integers(-(2**64) + 1, 2**64 - 1)
times = st.one_of(st.none(), st.text(max_size=3), st.tuples(st.text(max_size=3), st.text(max_size=3)))
idle = st.one_of(st.none(), st.integers(1, 10**12).map("{}us".format))


def spelled(amount, timed):
    return f"{amount}ns" if timed else amount


@st.composite
def intervals(draw):
    timed = draw(st.booleans())
    least, most = sorted((draw(amounts), draw(amounts)))
    lateness = draw(st.one_of(st.none(), st.integers(0, 2**64 - 1)))
    return interval(
        spelled(-least, timed),
        spelled(most, timed),
        time=draw(times),
        lateness=None if lateness is None else spelled(lateness, timed),
        late=draw(st.sampled_from(["drop", "return"])),
        idle_after=draw(idle),
    )


windows = st.one_of(
    st.builds(lambda n, m: rows(left=n, right=m), st.integers(1, 2**40), st.integers(1, 2**40)),
    st.builds(
        lambda amount, timed, time, purge: within(spelled(amount, timed), time=time, purge=purge),
        st.integers(1, 2**64 - 1),
        st.booleans(),
        times,
        st.sampled_from(["cross", "self"]),
    ),
    intervals(),
)


@given(windows)
def test_json_keeps_everything(made):
    assert window.from_json(json.loads(json.dumps(made.to_json()))) == made


@given(windows)
def test_the_repr_is_the_call_that_makes_it(made):
    assert eval(repr(made), {"rows": rows, "within": within, "interval": interval}) == made


def test_reprs():
    assert repr(rows(5)) == "rows(5)"
    assert repr(rows(left=2, right=3)) == "rows(left=2, right=3)"
    assert repr(within("10s", time="ts")) == "within('10s', time='ts')"
    assert repr(within(10, time=("a", "b"), purge="self")) == "within(10, time=('a', 'b'), purge='self')"
    made = interval("90s", "-1ms", time="t", lateness="0s", late="return", idle_after="1min")
    says = "interval('90s', '-1ms', time='t', lateness='0s', late='return', idle_after='1min')"
    assert repr(made) == says


def test_the_json_form():
    assert rows(left=2, right=3).to_json() == {"kind": "rows", "left": 2, "right": 3}
    assert within(10, time=("a", "b")).to_json() == {
        "kind": "within", "duration": "10", "time": ["a", "b"], "purge": "cross",
    }  # fmt: skip
    assert interval("90s", "-1ms", time="t", lateness="0s").to_json() == {
        "kind": "interval", "before": "90s", "after": "-1ms", "time": "t", "lateness": "0s", "late": "drop",
        "idle_after": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {"kind": "session"},
        {"kind": "rows"},
        {"kind": "rows", "left": 0, "right": 1},
        {"kind": "within", "duration": 10},
        {"kind": "within", "duration": "10", "size": 3},
        {"kind": "interval", "before": "1", "after": "1s"},
    ],
)
def test_what_is_no_json_of_a_window(data):
    with pytest.raises(SpecError, match="is not the JSON form of a window"):
        window.from_json(data)


@given(st.fractions())
def test_durations_as_text(nanoseconds):
    assert parse_duration(format_duration(nanoseconds)) == (nanoseconds, True)


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [(0, "0s"), (1, "1ns"), (1500, "1500ns"), (10**6, "1ms"), (-60 * 10**9, "-1min"), (86400 * 10**9, "1d")],
)
def test_durations_are_written_short(nanoseconds, text):
    assert format_duration(nanoseconds) == text


def test_rows():
    assert rows(3) == Rows(3, 3)
    assert rows(np.int64(3)) == Rows(3, 3)
    assert type(rows(np.int64(3)).left) is int
