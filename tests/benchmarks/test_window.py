"""The window benchmark in its smallest form, and what its figures rest on."""

import numpy as np
import pytest

from benchmarks import BENCHMARKS, window
from benchmarks.arrow_streams import Following, Stream, numeric_run, table_run
from benchmarks.foundation import Answer
from benchmarks.workload import Workload
from slidejoin.errors import StateError
from slidejoin.window import rows

WORKLOAD = Workload(64, matches=3, seed=5)
SIZES = window.Sizes(window=64, tuples=512, push=32)


def test_smoke_run_measures_every_line():
    said = []
    report = BENCHMARKS["window"].run(True, said.append)
    claims = [result for result in report.results if result.target]
    assert [claim.target for claim in claims] == [">= 0.5", ">= 0.5", ">= 0.25", ">= 0.25"]
    assert all(result.value is not None and np.isfinite(result.value) for result in report.results)
    assert all(result.value > 0 for result in report.results if result.unit != "%")
    assert len({result.what for result in report.results}) == len(report.results)
    assert report.quick
    assert said


def test_shares_of_a_push_add_up():
    shares = {"numbers": 0.0, "strings": 0.0}
    for result in window._profile(window.QUICK, lambda _: None):
        payload = "strings" if "strings" in result.what else "numbers"
        shares[payload] += result.value
    assert shares == pytest.approx({"numbers": 100, "strings": 100})


@pytest.mark.parametrize("payload", ["numbers", "strings"])
@pytest.mark.parametrize("form", ["arrivals", "one_sided"])
def test_both_joins_get_the_same_arrivals(payload, form):
    stream = Stream(WORKLOAD, payload)
    tables = getattr(stream, form)(96, 512, 32)
    arrays = getattr(stream, f"numeric_{form}")(96, 512, 32)
    assert len(tables) == len(arrays)
    for push, (sides, keys) in zip(tables, arrays, strict=True):
        [(kind, table)] = push.items()
        assert table["key"].to_pylist() == keys.tolist()
        own = table["side"].to_pylist() if kind == "arrivals" else [("left", "right").index(kind)] * len(keys)
        assert own == sides.tolist()
        if payload == "strings":
            assert {len(name) for name in table["name"].to_pylist()} == {12}


@pytest.mark.parametrize("form", ["arrivals", "one_sided"])
def test_ids_are_positions(form):
    stream = Stream(WORKLOAD, "strings")
    table = stream.warm(window._band(WORKLOAD), rows(64), SIZES.push)
    size = (WORKLOAD.warm, SIZES.tuples, SIZES.push)
    expected = numeric_run(WORKLOAD.join(), Following(getattr(stream, f"numeric_{form}"), *size))
    found = table_run(table, Following(getattr(stream, form), *size))
    for _ in range(2):
        one, other = expected(), found()
        assert one.matches > 0
        assert one[1:] == other[1:]


def test_a_wrong_answer_stops_the_benchmark(monkeypatch):
    monkeypatch.setattr(window, "table_run", lambda *_: lambda: Answer(1.0, 0, 0))
    with pytest.raises(StateError, match="disagree on the same arrivals"):
        list(window._against_numeric(SIZES, "numbers", window.Target(">=", 0.5), lambda _: None))


def test_stages_are_put_back():
    before = [getattr(owner, name) for stage in window.STAGES.values() for owner, name in stage]
    with pytest.raises(RuntimeError), window.timed_stages():
        raise RuntimeError
    assert before == [getattr(owner, name) for stage in window.STAGES.values() for owner, name in stage]


def test_a_stage_does_not_count_what_it_calls_of_others(monkeypatch):
    class Outer:
        def outer(self):
            return self.inner()

        def inner(self):
            return sum(range(10**5))

    monkeypatch.setattr(window, "STAGES", {"out": ((Outer, "outer"),), "in": ((Outer, "inner"),)})
    with window.timed_stages() as spent:
        Outer().outer()
    assert 0 <= spent["out"] < spent["in"]
