"""The window benchmark in its smallest form, and what its figures rest on."""

import sys

import numpy as np
import pytest

from benchmarks import BENCHMARKS, checkouts, machine, peer, window
from benchmarks.arrow_streams import Following, Stream, numeric_run, table_run
from benchmarks.foundation import Answer
from benchmarks.workload import Workload
from slidejoin.errors import StateError, UsageError
from slidejoin.window import rows

WORKLOAD = Workload(64, matches=3, seed=5)
SIZES = window.Sizes(window=64, tuples=512, push=32)
OTHER_CHECKOUT = [">= 4"] * 4 + [">= 0.97"] * 2


def test_smoke_run_measures_every_line(monkeypatch):
    monkeypatch.delenv(checkouts.OTHER, raising=False)
    said = []
    report = BENCHMARKS["window"].run(True, said.append)
    claims = [result for result in report.results if result.target]
    assert [claim.target for claim in claims] == [*[">= 0.85"] * 2, *[">= 0.6"] * 2, *OTHER_CHECKOUT]
    missing = [result for result in report.results if result.note]
    assert {result.note for result in missing} == {checkouts.NAME_OTHER}
    assert len(missing) == len(OTHER_CHECKOUT)
    found = [result for result in report.results if not result.note]
    assert all(np.isfinite(result.value) for result in found)
    assert all(result.value > 0 for result in found if result.unit != "%")
    assert len({result.what for result in report.results}) == len(report.results)
    assert report.quick
    assert said


def test_another_checkout_takes_turns(monkeypatch):
    monkeypatch.setenv(checkouts.OTHER, sys.executable)
    results = list(checkouts.lines(checkouts.QUICK, 2, lambda _: None))
    assert [result.target for result in results if result.target] == OTHER_CHECKOUT
    assert len(results) == 3 * len(OTHER_CHECKOUT)
    assert all(result.value > 0 and len(result.samples) == 2 for result in results)
    commit, _ = machine.git_state(peer.ROOT)
    assert checkouts.other_commit().startswith(commit)


def test_checkouts_that_disagree_stop_the_benchmark(monkeypatch):
    class Wrong(peer.Program):
        def run(self):
            return {"seconds": 1.0, "matches": id(self), "checksum": 0}

    monkeypatch.setenv(checkouts.OTHER, sys.executable)
    monkeypatch.setattr(checkouts, "Program", Wrong)
    with pytest.raises(StateError, match="disagree on the same arrivals"):
        list(checkouts.lines(checkouts.QUICK, 2, lambda _: None))


def test_a_python_without_slidejoin_is_named(monkeypatch, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho No module named slidejoin >&2\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setenv(checkouts.OTHER, str(python))
    with pytest.raises(UsageError, match=f"No module named slidejoin; check that {python}"):
        checkouts.other_commit()


@pytest.mark.parametrize("kind", checkouts.KINDS)
def test_pushed_rows_have_two_matches(kind):
    options = {"window": kind, "size": 2**8, "rows": 4, "pushes": 500}
    with checkouts._start(sys.executable, options) as worker:
        answer = worker.run()
    assert answer["matches"] / 2000 == pytest.approx(2, rel=0.2)


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
