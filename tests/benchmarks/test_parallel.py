"""The benchmark of several workers: its table, its targets, and joins that are missing or wrong."""

import json
import sys

import pytest
from benchmark_programs import check_lines

from benchmarks import BENCHMARKS, parallel, peer, propagation, two_tables, worker_race
from benchmarks.report import Target
from benchmarks.worker_race import Entrant, Finish
from benchmarks.workload import Workload
from slidejoin.errors import StateError, UsageError
from slidejoin.numeric import NumericJoin

WORKLOAD = Workload(2**8)
SHARED = peer.program("shared_peer")
needs_shared = pytest.mark.skipif(SHARED is None, reason="needs `make peers`")
TWO = [">= 1.5", ">= 1.4", ">= 1.4", ">= 1.5", ">= 0.7", ">= 1.3", ">= 0.4", ">= 0.7", "<= 0.3", ">= 1.7"]
SIXTEEN = [">= 8", ">= 8", ">= 6", ">= 6", ">= 0.7", ">= 3", ">= 0.4", ">= 0.7", "<= 0.3", ">= 9"]
OTHERS = [">= 0.7", ">= 0.4", ">= 0.7", "<= 0.3"]  # that do not depend on the number of workers


def quiet(_):
    pass


def test_smoke_run_fills_the_whole_table(monkeypatch):
    monkeypatch.setenv(parallel.WORKERS, "2")
    said = []
    report = BENCHMARKS["parallel"].run(True, said.append)
    assert [result.target for result in report.results if result.target] == TWO
    check_lines(report.results)
    for result in report.results:
        if result.value is None:
            assert "this build has no strategy" in result.note or result.note == peer.BUILD
    present = [result.what for result in report.results if result.value is not None]
    for part in ("best strategy", "WindowJoin", "phases, drift", "sj.join", "workers=2 / 1", "m=16"):
        assert any(part in what for what in present), part
    assert report.parameters["workers"] == 2
    assert report.quick
    assert said


@pytest.mark.parametrize(("workers", "targets"), [(2, TWO), (16, SIXTEEN), (32, SIXTEEN), (8, OTHERS)])
def test_targets_go_by_the_number_of_workers(monkeypatch, workers, targets):
    def race(entrants, tuples, *_):
        return Finish({name: [1.0, 1.0] for name in entrants}, {}, tuples)

    monkeypatch.setattr(parallel, "race", race)
    monkeypatch.setattr(parallel, "alternate", lambda turns, _: {name: [1.0] for name in turns})
    monkeypatch.setattr(two_tables, "alternate", lambda turns, _: {name: [1.0] for name in turns})
    monkeypatch.setattr(parallel.Stream, "warm", lambda *_, **__: None)
    monkeypatch.setattr(propagation, "program", lambda _: None)
    lines = [line for part in parallel.PARTS for line in part(parallel.QUICK, workers, quiet)]
    assert [line.target for line in lines if line.target] == targets


def test_workers_are_the_usable_cores_unless_told(monkeypatch):
    monkeypatch.delenv(parallel.WORKERS, raising=False)
    monkeypatch.setattr(parallel, "usable_cores", lambda: 5)
    assert parallel.number_of_workers() == 5
    monkeypatch.setenv(parallel.WORKERS, "3")
    assert parallel.number_of_workers() == 3


@pytest.mark.parametrize("given", [None, "1", "0", "many", "-2", ""])
def test_too_few_workers_are_refused(monkeypatch, given):
    monkeypatch.setattr(parallel, "usable_cores", lambda: 1)
    monkeypatch.delenv(parallel.WORKERS, raising=False)
    if given is not None:
        monkeypatch.setenv(parallel.WORKERS, given)
    with pytest.raises(UsageError, match="expected two or more workers: set SLIDEJOIN_WORKERS=2"):
        parallel.number_of_workers()


# --- The race ---


def test_a_ratio_is_one_of_speeds_within_a_round():
    finish = Finish({"fast": [1.0, 2.0], "slow": [3.0, 6.0]}, {}, 10)
    assert finish.ratio("what", "fast", "slow", Target(">=", 3)).samples == [3.0, 3.0]
    assert finish.best(["slow", "fast", "nobody"]) == "fast"
    assert [line.value for line in finish.rates("shape")] == pytest.approx([7.5e-6, 2.5e-6])


def test_who_is_absent_leaves_a_line_with_the_reason():
    finish = Finish({"here": [1.0]}, {"away": "not built"}, 10)
    for one, other in (("here", "away"), ("away", "here")):
        line = finish.ratio("what", one, other, Target(">=", 3))
        assert (line.value, line.target, line.ok, line.note) == (None, ">= 3", None, "not built")
    assert [(line.what, line.note) for line in finish.rates("shape")] == [
        ("here, shape", None),
        ("away, shape", "not built"),
    ]


def test_a_join_that_uses_another_strategy_takes_no_part(monkeypatch):
    monkeypatch.setattr(NumericJoin, "strategy", property(lambda _: "phases"))
    entrants = {
        "auto": Entrant(WORKLOAD),
        "phases": Entrant(WORKLOAD, "bucket-tree", "phases", 2),
        "shared": Entrant(WORKLOAD, "pim-tree", "shared-index(task_size=4)", 2),
    }
    finish = worker_race.race(entrants, 2**8, 2**8, 1)
    assert list(finish.seconds) == ["auto", "phases"]
    assert finish.absent == {"shared": "this build has no strategy shared-index for pim-tree: it uses phases"}
    assert worker_race.race({"shared": entrants["shared"]}, 2**8, 2**8, 1).seconds == {}


def test_a_wrong_answer_stops_the_race(monkeypatch):
    push = NumericJoin.push

    def forget(self, *arguments):
        left, right = push(self, *arguments)
        return (left[1:], right[1:]) if self.workers == 2 else (left, right)

    monkeypatch.setattr(NumericJoin, "push", forget)
    entrants = {"one": Entrant(WORKLOAD), "two": Entrant(WORKLOAD, workers=2)}
    with pytest.raises(StateError, match="disagree on the same arrivals"):
        worker_race.race(entrants, 2**8, 2**8, 1)


def test_joins_of_other_arrivals_need_not_agree():
    entrants = {
        "two sides": Entrant(WORKLOAD),
        "one side": Entrant(WORKLOAD, self_join=True),
        "others": Entrant(Workload(2**8, seed=2)),
    }
    finish = worker_race.race(entrants, 2**8, 2**8, 2)
    assert {name: len(seconds) for name, seconds in finish.seconds.items()} == dict.fromkeys(entrants, 2)


# --- Propagation ---


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A program that answers by its options; one whose merge blocks has gaps four times as long."""

    def install(change=""):
        path = tmp_path / "shared_peer"
        path.write_text(
            f"#!{sys.executable}\n"
            "import json, sys\n"
            "words = sys.argv[2:]\n"
            "given = dict(zip(words[::2], words[1::2]))\n"
            "print(json.dumps({'ready': True}), flush=True)\n"
            "for turn, _ in enumerate(sys.stdin):\n"
            "    answer = {'seconds': 0.5, 'matches': turn, 'checksum': 7, 'p50': 1, 'p99': 2, 'p99.9': 3}\n"
            "    answer['longest_gap'] = (1000 if turn == 0 else 2) * 4 ** int(given.get('--blocking', 0))\n"
            f"    {change}\n"
            "    print(json.dumps(answer), flush=True)\n"
        )
        path.chmod(0o755)
        monkeypatch.setattr(propagation, "program", lambda name: path if name == "shared_peer" else None)

    return install


def test_gaps_and_latencies_come_from_the_program(fake):
    fake()
    sizes = propagation.Sizes(window=2**8, tuples=2**8, task_sizes=(1, 4), rounds=2)
    lines = {line.what: line for line in propagation.lines(sizes, 2, quiet)}
    assert len(lines) == 3 + 2 * 4
    gap = lines["longest gap between results, time, non-blocking / blocking merge, 2 workers, w=2^8"]
    assert (gap.samples, gap.ok) == ([0.25, 0.25], True)
    assert lines["longest gap between results, blocking merge, 2 workers, w=2^8"].samples == [8, 8]
    assert lines["shared pim-tree, task_size=4, 2 workers, w=2^8, p99.9 of latency"].value == 3
    assert lines["shared pim-tree, task_size=4, 2 workers, w=2^8"].value == pytest.approx(2**8 / 0.5e6)


def test_the_program_is_told_what_to_do(fake):
    fake("open(sys.argv[0] + given['--task-size'], 'w').write(json.dumps(given))")
    sizes = propagation.Sizes(window=2**8, tuples=2**9, task_sizes=(3,), rounds=1)
    assert list(propagation._latencies(sizes, 5, quiet))
    path = propagation.program("shared_peer")
    given = json.loads(path.with_name("shared_peer3").read_text())
    wanted = {"--workers": "5", "--task-size": "3", "--window": "256", "--tuples": "512", "--matches": "2"}
    assert wanted.items() <= given.items()


@pytest.mark.parametrize("field", ["matches", "checksum"])
def test_programs_that_disagree_stop_the_benchmark(fake, field):
    fake(f"answer['{field}'] += int(given.get('--blocking', 0))")
    with pytest.raises(StateError, match="disagree on the same arrivals"):
        list(propagation.lines(propagation.QUICK, 2, quiet))


@needs_shared
def test_the_program_finds_what_one_thread_finds():
    options = propagation.FORM | {"push": "4096", "workers": "2", "task-size": "3", "blocking": "1"}
    with peer.Peer(SHARED, WORKLOAD, 2**12, None, **options) as program:
        answers = [program.run() for _ in range(2)]
    join = WORKLOAD.join()
    for i, answer in enumerate(answers):
        arrivals = WORKLOAD.warm + i * 2**12, 2**12
        assert answer["matches"] == join.count(WORKLOAD.sides(*arrivals), WORKLOAD.keys(*arrivals)) > 2**12
        assert 0 < answer["p50"] <= answer["p99"] <= answer["p99.9"]
        assert 0 < answer["longest_gap"] < 1e6 * answer["seconds"]


@needs_shared
def test_the_program_traces_shared_indexes_only():
    options = propagation.FORM | {"strategy": "phases", "workers": "2"}
    with (
        peer.Peer(SHARED, WORKLOAD, 2**10, None, **options) as program,
        pytest.raises(UsageError, match="fewer than two chunks; expected --strategy shared-index"),
    ):
        program.run()


def test_without_the_program_lines_say_how_to_get_it(monkeypatch):
    monkeypatch.setattr(propagation, "program", lambda _: None)
    lines = list(propagation.lines(propagation.QUICK, 2, quiet))
    assert [line.note for line in lines] == [peer.BUILD] * 3
    assert [line.target for line in lines] == ["<= 0.3", None, None]
