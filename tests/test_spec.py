"""Specs of joins: checked arguments, JSON, fingerprints. Those of NumericJoin: tests/fault."""

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_predicate import predicates
from test_window import windows

import slidejoin as sj
from slidejoin import _core
from slidejoin.join_type import JOIN_TYPES
from slidejoin.predicate import band, equal
from slidejoin.spec import ORDERS, JoinSpec, join_spec, numeric_spec
from slidejoin.window import Rows, interval, rows, within

ON = band("price", within=0.5)


def test_what_it_holds():
    spec = join_spec(ON, rows(10))
    assert spec == JoinSpec(ON, Rows(10, 10), "inner", "auto", 1, "arrival", ("", "_right"), False)
    assert spec.time is None
    assert join_spec(ON, 10) == join_spec(ON, (10, 10)) == spec
    assert hash(join_spec(ON, 10)) == hash(spec)
    assert join_spec(ON, 10, suffixes=["_l", "_r"]).suffixes == ("_l", "_r")


def test_time_columns():
    assert join_spec(ON, within(5, time="t")).time == ("t", "t")
    assert join_spec(ON, interval(5, 5, time=("a", "b"))).time == ("a", "b")


@pytest.mark.parametrize("index", [*_core.indexes(), "auto"])
def test_every_index(index):
    assert join_spec(ON, 10, index=index).index == index


@pytest.mark.parametrize("order", ORDERS)
def test_every_order(order):
    assert join_spec(ON, 10, order=order).order == order


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"on": "price"}, "on='price'; expected a predicate, such as sj.equal('price')"),
        ({"on": None}, "on=None; expected a predicate, such as sj.band"),
        ({"index": "btree"}, "; did you mean 'b-tree'?"),
        ({"on": ["a", "b"]}, "on=['a', 'b']; expected a predicate, such as sj.equal('a') & sj.equal('b')"),
        ({"on": ("a",)}, "on=('a',); expected a predicate, such as sj.equal('a')"),
        ({"on": ["a", ON]}, f"expected a predicate, such as sj.equal('a') & sj.{ON}"),
        ({"on": []}, "on=[]; expected a predicate, such as sj.band("),
        ({"window": "10s"}, "sj.rows(...), sj.within('10s', time='ts') or sj.interval(...)"),
        ({"window": 0}, "a window of 0 rows"),
        ({"window": rows(2**31 + 1)}, "2**31"),
        ({"window": within("5s")}, "does not name its timestamps; add time='column'"),
        ({"window": interval("5s", "5s")}, "does not name its timestamps"),
        (
            {"how": "outer"},
            "how='outer'; expected one of inner, left, right, full, left_semi, left_anti, "
            "right_semi, right_anti; did you mean 'full'?",
        ),
        ({"how": "FULL_OUTER"}, "; did you mean 'full'?"),
        ({"how": "left outer"}, "; did you mean 'left'?"),
        ({"how": "rightouter"}, "; did you mean 'right'?"),
        ({"how": "semi"}, "; did you mean 'left_semi'?"),
        ({"how": "Inner"}, "; did you mean 'inner'?"),
        ({"how": 3}, "how=3; expected one of"),
        ({"order": "ful"}, "order='ful'; expected one of none, arrival, full; did you mean 'full'?"),
        ({"index": "hash"}, "index='hash'; expected one of nested-loop, b-tree"),
        ({"order": "random"}, "order='random'; expected one of none, arrival, full"),
        ({"workers": 0}, "workers=0"),
        ({"workers": np.ones(2)}, "workers=array([1., 1.])"),
        ({"window": np.ones(2, int)}, "window=array([1, 1]); expected a number of rows"),
        ({"workers": True}, "workers=True"),
        ({"workers": "1"}, "workers='1'"),
        ({"suffixes": ("_x", "_x")}, "suffixes '_x' and '_x' are the same"),
        ({"suffixes": ("a", "b", "c")}, "expected a pair of texts"),
        ({"suffixes": "ab"}, "expected a pair of texts"),
        ({"suffixes": ("a", None)}, "expected a pair of texts"),
        ({"self_join": 1}, "self_join=1; expected True or False"),
        ({"self_join": True, "window": (3, 4)}, "one stream and one window, not rows(left=3, right=4)"),
        ({"self_join": True, "window": within(3, time=("a", "b"))}, "one timestamp, not ('a', 'b')"),
    ]
    + [({"how": how, "self_join": True}, f"how={how!r} in a self-join") for how in list(JOIN_TYPES)[1:]],
)
def test_a_senseless_description(arguments, says):
    with pytest.raises(sj.SpecError) as error:
        join_spec(**{"on": ON, "window": 10, **arguments})
    assert says in str(error.value)


def test_numeric_join_points_to_window_join():
    for window, says in [
        (interval(5, 5), "NumericJoin has rows and within windows; for interval windows use WindowJoin"),
        (within(5, purge="self"), "NumericJoin has no purge='self'; use WindowJoin"),
    ]:
        with pytest.raises(sj.SpecError, match=says):
            numeric_spec(window, 0, 1, np.int32, "auto", 1, False, None)
        with pytest.raises(sj.SpecError, match=says):
            sj.NumericJoin(window, 0, 1, np.int32)


usable = windows.filter(
    lambda w: max(w.left, w.right) <= 2**31 if isinstance(w, Rows) else w.time is not None
)
pairs = st.tuples(st.text(max_size=3), st.text(max_size=3)).filter(lambda pair: pair[0] != pair[1])


@given(predicates, usable, st.sampled_from(ORDERS), pairs, st.sampled_from([*_core.indexes(), "auto"]))
def test_json_keeps_everything(on, window, order, suffixes, index):
    spec = join_spec(on, window, order=order, suffixes=suffixes, index=index)
    again = JoinSpec.from_json(json.loads(json.dumps(spec.to_json())))
    assert again == spec
    assert again.fingerprint == spec.fingerprint


@pytest.mark.parametrize("data", [None, {}, {"on": ON.to_json()}, {"how": "inner"}])
def test_what_is_no_json_of_a_join(data):
    with pytest.raises(sj.SpecError, match="is not the JSON form of a join"):
        JoinSpec.from_json(data)


SPEC = join_spec(
    equal("symbol") & band("price", "cost", lower=-0.1, upper=10) & band("ü", within="1.5h"),
    interval("5s", "-1ms", time=("ts", "at"), lateness="2s", late="return", idle_after="30s"),
    order="full",
    suffixes=("", "_r"),
)
FINGERPRINT = "b1b5f7bf05dba15dd1036dc4da8d70d64cce964081b3a03c3326749459f4e22c"


def test_the_fingerprint_never_changes():
    """Checkpoints carry it: were this value another one, checkpoints of older versions would be refused."""
    assert SPEC.fingerprint == FINGERPRINT
    code = "from test_spec import SPEC; print(SPEC.fingerprint)"
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=__file__.rpartition("/")[0],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == FINGERPRINT


def test_the_fingerprint_is_of_the_meaning():
    base = join_spec(ON, 10).fingerprint
    assert join_spec(band("price", lower=-0.5, upper=0.5), rows(10)).fingerprint == base
    assert join_spec(ON, 10, index="b-tree").fingerprint == base
    others = [
        join_spec(band("price", within=0.25), 10),
        join_spec(band("price", "cost", within=0.5), 10),
        join_spec(ON & equal("a"), 10),
        join_spec(ON, 11),
        join_spec(ON, within(10, time="t")),
        join_spec(ON, within(10, time="t", purge="self")),
        join_spec(ON, within("10ns", time="t")),
        join_spec(ON, interval(10, 10, time="t")),
        join_spec(ON, 10, order="full"),
        join_spec(ON, 10, suffixes=("_l", "_r")),
        join_spec(ON, 10, self_join=True),
    ]
    assert len({base, *(spec.fingerprint for spec in others)}) == len(others) + 1


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("strategy", r"NumericJoin has it, WindowJoin chooses .*leave it out"),
        ("worker", r"did you mean 'workers'\?"),
        ("qqq", r"it has on, window, how,"),
    ],
)
def test_unknown_arguments_of_a_join(name, says):
    with pytest.raises(sj.SpecError, match=rf"WindowJoin has no argument '{name}'; {says}"):
        sj.WindowJoin(band("x", within=1), 5, **{name: 1})
