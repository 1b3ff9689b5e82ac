"""Costs: their shape over windows, matches and batches, the file that holds them, and files that do not."""

import json
import math
from dataclasses import replace
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.errors import SpecError, StateError
from slidejoin.index import PARAMETERS
from slidejoin.model import Costs, IndexCost
from slidejoin.model.cost_file import costs_path, from_json, to_json
from slidejoin.model.costs import SHARED, moved_entries
from slidejoin.model.surface import Surface, rising
from slidejoin.plan import plan_join

DEFAULT = Costs.default()
indexes = st.sampled_from(sorted(PARAMETERS))
windows = st.floats(1, 2**26)
matches = st.floats(0, 2**14)
batches = st.floats(1, 2**20)


def seconds(index, window, matches, batch, **options):
    return DEFAULT.arrival(index, window=window, matches=matches, batch=batch, **options)


@given(indexes, windows, matches, batches, st.booleans(), st.integers(1, 64))
def test_every_part_is_finite_and_positive(index, window, matches, batch, listed, workers):
    cost = seconds(index, window, matches, batch, listed=listed, workers=workers)
    parts = (cost.search, cost.scan, cost.insert, cost.merge, cost.call)
    assert all(0 <= part < math.inf for part in parts)
    assert cost.search > 0
    assert cost.insert > 0
    assert cost.call > 0
    assert cost.total == pytest.approx(sum(parts))


@pytest.mark.parametrize("index", sorted(PARAMETERS))
@pytest.mark.parametrize("matches", [1, 3, 20])
def test_the_bucket_tree_joins_plain_arrivals_faster(index, matches):
    plain, other = (seconds(index, 2**17, matches, 2048, plain=each).total for each in (True, False))
    assert plain < 0.95 * other if index == "bucket-tree" else plain == other


def test_workers_share_plain_arrivals_where_that_is_faster():
    one, *several = (seconds("bucket-tree", 2**17, 2, 8192, workers=n) for n in (1, 2, 16))
    others = [seconds("bucket-tree", 2**17, 2, 8192, workers=n, plain=False) for n in (2, 16)]
    assert several == [min(one, other, key=lambda cost: cost.total) for other in others]
    assert several == [one, others[1]]


@given(indexes, windows, matches, batches, st.booleans(), st.floats(1, 64))
def test_a_larger_window_costs_no_less(index, window, matches, batch, listed, times):
    less, more = (seconds(index, each, matches, batch, listed=listed) for each in (window, window * times))
    assert more.total >= less.total * (1 - 1e-9)


@given(indexes, windows, matches, batches, st.booleans(), st.floats(1, 64))
def test_more_matches_cost_no_less(index, window, matches, batch, listed, times):
    less, more = (seconds(index, window, each, batch, listed=listed) for each in (matches, matches * times))
    assert more.total >= less.total * (1 - 1e-9)
    assert more.search == less.search


@given(indexes, windows, matches, batches)
def test_listing_costs_no_less_than_counting(index, window, matches, batch):
    listed, counted = (seconds(index, window, matches, batch, listed=each) for each in (True, False))
    assert listed.total >= counted.total


@given(indexes, windows, matches, batches)
def test_there_are_no_jumps(index, window, matches, batch):
    here = seconds(index, window, matches, batch).total
    near = seconds(index, window * (1 + 1e-7), matches * (1 + 1e-7), batch * (1 + 1e-7)).total
    assert near == pytest.approx(here, rel=1e-5)


@given(indexes, windows, windows, matches, batches)
def test_two_windows_cost_their_mean(index, left, right, matches, batch):
    both = seconds(index, (left, right), matches, batch).total
    each = [seconds(index, window, matches, batch).total for window in (left, right)]
    assert both == pytest.approx(sum(each) / 2)


def test_the_pieces_of_a_known_surface():
    times = Surface([2**10, 2**12], [1, 4], [[1e-6, 1e-6], [4e-6, 1e-6]])
    assert times(2**11, 1) == pytest.approx(2e-6)  # as the window
    assert times(2**11, 2) == pytest.approx(2**0.5 * 1e-6)
    assert times(2**14, 1) == pytest.approx(16e-6)  # goes on as the window
    assert times(2**9, 1) == pytest.approx(0.5e-6)
    root = Surface([2**10, 2**12], [1], [[1e-6], [2e-6]])
    assert root(2**14, 1) == pytest.approx(2**0.5 * 2e-6)  # half the slope: a cache was left behind
    assert root(2**8, 1) == pytest.approx(0.5e-6)
    assert times(2**14, 64) == pytest.approx(1e-6)  # batches beyond the last are as the last
    steep = Surface([2**10, 2**11], [1], [[1e-6], [4e-6]])
    assert steep(2**12, 1) == pytest.approx(8e-6)  # no faster than the window
    falling = Surface([2**10, 2**11], [1], [[4e-6], [1e-6]])
    assert falling(2**12, 1) == pytest.approx(1e-6)
    assert rising([[1, 9], [2, 3], [1, 4]]) == [[1, 9], [2, 9], [2, 9]]


def test_a_nested_loop_costs_its_comparisons():
    small, large = (seconds("nested-loop", window, 1, 1).search for window in (2**17, 2**19))
    assert large == pytest.approx(4 * small, rel=0.25)
    assert large == pytest.approx(DEFAULT.alpha * 2**19, rel=0.5)
    assert 0 < DEFAULT.beta < 1e-7


def test_merges_move_as_many_entries_as_the_structures_say():
    assert moved_entries("im-tree", 2**20, 1) == moved_entries("pim-tree", 2**20, 2**16) == 8
    assert moved_entries("im-tree", 2**11, 1) == 2  # a merge takes 1,024 entries at least
    assert moved_entries("sorted-run", 2**20, 2**18) == 8
    assert moved_entries("sorted-run", 2**20, 1) == pytest.approx(2**20 / (64 + 4 * 2**10))
    assert moved_entries("bucket-tree", 2**20, 1) == 0


def test_workers_share_large_pushes_only():
    few = DEFAULT.arrival("bucket-tree", window=2**20, matches=2, batch=2 * SHARED - 1, workers=8)
    one = DEFAULT.arrival("bucket-tree", window=2**20, matches=2, batch=2 * SHARED - 1)
    assert few == one
    most = max(DEFAULT.speedups)
    speedups = [DEFAULT.scaling("phases", workers, 2**20) for workers in (1, 2, most, 4 * most)]
    assert speedups == sorted(speedups)
    assert speedups[-1] < 4 * most
    assert DEFAULT.scaling("round-robin", 8) == 1
    assert DEFAULT.extrapolates(most + 1)
    assert not DEFAULT.extrapolates(most)


def test_a_speedup_that_is_too_good_is_not_extrapolated():
    lucky = replace(DEFAULT, speedups={1: 1.0, 2: 2.1})  # by Amdahl's law, 22 workers would take no time
    assert lucky.scaling("phases", 22, 2**20) == 22


def test_the_call_from_python_is_not_shared():
    one, two = (DEFAULT.arrival("b-tree", window=2**16, matches=2, batch=4096, workers=n) for n in (1, 2))
    assert one.call == two.call == DEFAULT.push / 4096


@given(indexes, st.floats(1024, 2**24))
def test_memory_grows_with_the_window(index, window):
    assert 2 * window * 6 < DEFAULT.memory(index, window) < 2 * window * 300
    assert DEFAULT.memory(index, (window, 1)) < DEFAULT.memory(index, window)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"window": -1}, "window=-1"),
        ({"matches": math.nan}, "matches=nan"),
        ({"batch": 0}, "batch=0"),
        ({"workers": 0}, "workers=0"),
        ({"window": math.inf}, "window=inf"),
    ],
)
def test_bad_numbers_are_refused(wrong, message):
    with pytest.raises(SpecError, match=message):
        DEFAULT.arrival("b-tree", **{"window": 1000, "matches": 1, **wrong})


def test_an_unknown_index_is_refused():
    with pytest.raises(SpecError, match=r"no costs of index 'btree'.*did you mean 'b-tree'"):
        DEFAULT.arrival("btree", window=1000, matches=1)


def test_the_default_has_every_index_and_is_part_of_the_package():
    assert set(DEFAULT.indexes) == set(PARAMETERS)
    assert not DEFAULT.measured
    assert DEFAULT.machine["cpu"]
    assert DEFAULT.spark is not None
    assert files("slidejoin.model").joinpath("default_costs.json").is_file()


def test_a_file_gives_back_what_was_written(tmp_path):
    path = DEFAULT.save(tmp_path / "new" / "costs.json")
    again = Costs.load(path)
    assert again.measured
    assert to_json(again) == to_json(DEFAULT)
    cost = {"window": 12345, "matches": 6.7, "batch": 890}
    assert again.arrival("im-tree", **cost) == DEFAULT.arrival("im-tree", **cost)


def test_the_file_of_this_machine(tmp_path, monkeypatch):
    monkeypatch.delenv("SLIDEJOIN_CALIBRATION", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert costs_path() == tmp_path / "slidejoin" / "costs.json"
    assert Costs.load() is DEFAULT
    assert DEFAULT.save() == costs_path()
    assert Costs.load().measured
    monkeypatch.setenv("SLIDEJOIN_CALIBRATION", str(tmp_path / "other.json"))
    assert Costs.load() is DEFAULT
    monkeypatch.delenv("SLIDEJOIN_CALIBRATION")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert costs_path() == tmp_path / ".cache" / "slidejoin" / "costs.json"


def test_a_named_file_that_is_missing_is_an_error(tmp_path):
    with pytest.raises(StateError, match="there is no file of costs"):
        Costs.load(tmp_path / "none.json")
    with pytest.raises(StateError, match="cannot be read"):
        Costs.load(tmp_path)


def changed(path, value):
    """The default's JSON with one value changed, or removed."""
    data = json.loads(json.dumps(to_json(DEFAULT)))
    part = data
    for name in path[:-1]:
        part = part[name]
    if value is None:
        del part[path[-1]]
    else:
        part[path[-1]] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["version"], 1, "version 1; this version of slidejoin reads version 2"),
        (["version"], None, "the file has no 'version'"),
        (["indexes", "im-tree"], None, "indexes has no im-tree"),
        (["indexes", "im-tree"], 5, "indexes.im-tree is not an object"),
        (["calls", "push"], 0, "calls.push is 0; expected a positive number"),
        (["calls", "push"], True, "calls.push is True; expected a number"),
        (["calls", "push"], math.nan, "calls.push is nan; expected a number"),
        (["calls", "push"], 10**400, "expected a number up to 1e15"),
        (["calls", "push"], math.inf, "calls.push is inf; expected a number"),
        (["indexes", "bucket-tree", "base", "window", 0], 0.5, "base.window begins with 0.5; expected sizes"),
        (["large", "pairs"], [1], "large.seconds is not a list of 1"),
        (["large", "seconds", 0], -1, "large.seconds is -1"),
        (["listing", "window"], [4096, 4096, 5000, 6000], "listing.window does not ascend"),
        (["listing", "seconds"], [[1]], "listing.seconds is not a list of"),
        (["indexes", "b-tree", "base", "seconds", 0], [1e-9], "indexes.b-tree.base.seconds is not a list of"),
        (["indexes", "b-tree", "base", "batch"], [], "indexes.b-tree.base.batch is not a list of some"),
        (["indexes", "b-tree", "insert_share"], 1.5, "insert_share is 1.5; expected a share"),
        (["indexes", "b-tree", "scan", "1"], {}, "scan needs numbers of matches"),
        (["indexes", "b-tree", "memory", "bytes"], [1], "indexes.b-tree.memory.bytes is not a list of"),
        (["speedups", "1"], None, "no figure of 1 worker"),
        (["speedups", "two"], 2.0, "'two' stands where a whole number"),
        (["spark"], 3, "spark is not an object"),
    ],
)
def test_a_bad_file_says_what_is_wrong(tmp_path, path, value, message):
    file = tmp_path / "costs.json"
    file.write_text(json.dumps(changed(path, value)))
    with pytest.raises(StateError) as caught:
        Costs.load(file)
    assert message in str(caught.value)
    assert str(file) in str(caught.value)
    assert "slidejoin model calibrate" in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '"costs"', "[" * 100_000, "\ud800"])
def test_text_that_is_not_costs(tmp_path, text):
    file = tmp_path / "costs.json"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(StateError):
        Costs.load(file)


def test_costs_without_spark():
    assert from_json({**to_json(DEFAULT), "spark": None}).spark is None


@pytest.mark.parametrize(
    "call",
    [
        lambda: DEFAULT.arrival("b-tree", window="many", matches=1),
        lambda: DEFAULT.arrival("b-tree", window=10, matches=None),
        lambda: DEFAULT.arrival("b-tree", window=10, matches=1, batch="a"),
        lambda: DEFAULT.arrival(["b-tree"], window=10, matches=1),
        lambda: DEFAULT.memory("b-tree", None),
        lambda: DEFAULT.scaling("phases", "two"),
        lambda: Costs.load(5),
        lambda: DEFAULT.save(5),
        lambda: IndexCost("b-tree", "costs.json"),
        lambda: plan_join(sj.rows(10), 5, matches=1, costs="costs.json"),
    ],
)
def test_wrong_types_are_refused_in_words(call):
    with pytest.raises(SpecError, match=r"expected|known are"):
        call()
