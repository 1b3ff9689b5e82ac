"""The benchmark of the indexes in its smallest form, its contenders, and the parameters in the document."""

import doctest
import pathlib
import re

import numpy as np
import pytest
from benchmark_programs import ABSL, PROGRAM, check_lines, needs_absl, needs_programs

from benchmarks import BENCHMARKS, index_claims, indexes, numpy_peer, peer, race
from benchmarks.workload import Workload
from slidejoin import isa
from slidejoin.errors import StateError
from slidejoin.index import PARAMETERS
from slidejoin.numeric import NumericJoin

TARGETS = [">= 1.6", ">= 1.8", ">= 1.8", ">= 1.3", ">= 3", ">= 4", ">= 10"]


@needs_absl
def test_smoke_run_fills_the_whole_table():
    said = []
    report = BENCHMARKS["indexes"].run(True, said.append)
    assert [result.target for result in report.results if result.target] == TARGETS
    assert not [result for result in report.results if result.note]
    check_lines(report.results)
    for name in PARAMETERS:
        own = [result for result in report.results if result.what.startswith(f"{name}, ")]
        assert {result.unit for result in own} >= {"M tuples/s", "bytes/tuple"}
    assert report.quick
    assert said


@needs_absl
def test_smoke_run_measures_every_claim():
    report = BENCHMARKS["claims"].run(True, lambda _: None)
    check_lines(report.results)
    assert not [result for result in report.results if result.target or result.note]
    assert sum("paper" in result.what for result in report.results) >= 20


def test_without_native_programs_the_rest_is_measured(monkeypatch):
    monkeypatch.setattr(indexes, "program", lambda: None)
    report = indexes.run(True, lambda _: None)
    claims = [result for result in report.results if result.target]
    assert [claim.target for claim in claims] == TARGETS
    assert [claim.note for claim in claims] == [peer.BUILD] * 5 + [None, peer.BUILD]
    check_lines(report.results)
    [line] = index_claims.run(True, lambda _: None).results
    assert line.note == peer.BUILD


@needs_programs
def test_without_absl_its_lines_say_how_to_get_it(monkeypatch):
    monkeypatch.setattr(indexes, "about", lambda _: {"compiler": "any", "absl": False})
    report = indexes.run(True, lambda _: None)
    notes = [result.note for result in report.results if result.target]
    assert notes == [peer.INSTALL_ABSL] * 3 + [None, peer.INSTALL_ABSL, None, None]
    claims = index_claims.run(True, lambda _: None).results
    assert {result.note for result in claims} == {None, peer.INSTALL_ABSL}


@pytest.mark.parametrize("wrong", numpy_peer.NUMPY_JOINS)
def test_a_wrong_answer_from_python_stops_the_benchmark(monkeypatch, wrong):
    class Forgetful(numpy_peer.NUMPY_JOINS[wrong]):
        def push(self, sides, keys):
            left, right = super().push(sides, keys)
            return left[1:], right[1:]

    monkeypatch.setitem(indexes.NUMPY_JOINS, wrong, Forgetful)
    with pytest.raises(StateError, match="disagree on the same arrivals"):
        list(indexes._numpy(indexes.QUICK, lambda _: None))


@needs_programs
@pytest.mark.parametrize(
    ("part", "field"),
    [(part, field) for part in ("_trees", "_chains", "_inserts") for field in ("matches", "checksum")]
    + [("_counts", "matches")],
)
def test_a_wrong_answer_of_a_program_stops_the_benchmark(monkeypatch, part, field):
    if part in ("_trees", "_inserts") and not ABSL:
        pytest.skip("needs libabsl-dev")
    started = []

    class Wrong(peer.Peer):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self)

        def run(self):
            answer = super().run()
            return answer | {field: answer[field] + (self is started[-1])}

    monkeypatch.setattr(race, "Peer", Wrong)
    programs = race.Programs(PROGRAM, ABSL)
    with pytest.raises(StateError, match="disagree on the same arrivals"):
        list(getattr(indexes, part)(indexes.QUICK, programs, lambda _: None))


def test_contenders_of_different_arrivals_need_not_agree(monkeypatch):
    class Pretended:
        def __init__(self, _path, workload, _tuples, _environment, **_):
            self._found = int(workload.matches)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def run(self):
            return {"seconds": 2.0, "matches": self._found, "checksum": 0, "bytes_per_tuple": 8.0}

    monkeypatch.setattr(race, "Peer", Pretended)
    contenders = {
        "few": race.ours("b-tree", Workload(64, 1), 10),
        "many": race.ours("b-tree", Workload(64, 9), 20, parameters={"merge_ratio": 0.5}),
    }
    outcome = race.race(pathlib.Path("none"), contenders, rounds=2)
    assert outcome.speedup("many", "few") == [2.0, 2.0]
    assert outcome.bytes_per_tuple == {"few": 8.0, "many": 8.0}
    given = {"index": "b-tree", "options": "merge_ratio=0.5", "group": "1"}
    assert contenders["many"].options == given | {"level": isa.current()}


def test_contenders_run_on_the_level_that_joins_get():
    with isa.use("portable"):
        assert race.ours("b-tree", Workload(64, 1), 10).options["level"] == "portable"


# --- The contenders are right ---


def batches(total, size, seed):
    rng = np.random.default_rng(seed)
    sides = rng.integers(0, 2, total).astype(np.uint8)
    keys = rng.integers(-40, 40, total).astype(np.int32)
    ends = rng.random(total) < 0.1
    keys[ends] = rng.choice(np.array([-(2**31), 2**31 - 1, 2**31 - 3], np.int32), ends.sum())
    return [(sides[at : at + size], keys[at : at + size]) for at in range(0, total, size)]


@pytest.mark.parametrize("name", numpy_peer.NUMPY_JOINS)
@pytest.mark.parametrize(("window", "size"), [(50, 7), (50, 50), (50, 130), (5, 64), (300, 1)])
@pytest.mark.parametrize(("lower", "upper"), [(-2, 3), (0, 0), (4, 9), (-9, -4)])
def test_numpy_finds_the_same_pairs(name, window, size, lower, upper):
    join = NumericJoin(window, lower, upper, np.int32)
    contender = numpy_peer.NUMPY_JOINS[name](window, lower, upper)
    found = 0
    for sides, keys in batches(600, size, seed=window + size):
        expected = sorted(zip(*(each.tolist() for each in join.push(sides, keys)), strict=True))
        answer = sorted(zip(*(each.tolist() for each in contender.push(sides, keys)), strict=True))
        assert answer == expected
        found += len(expected)
    assert found > 0


@pytest.mark.parametrize("name", numpy_peer.NUMPY_JOINS)
def test_numpy_takes_batches_of_one_side_and_empty_ones(name):
    join, contender = NumericJoin(9, -1, 1, np.int32), numpy_peer.NUMPY_JOINS[name](9, -1, 1)
    keys = np.arange(20, dtype=np.int32)
    for side, count in ((1, 0), (0, 20), (1, 20), (1, 20), (0, 0), (0, 20)):
        push = np.full(count, side, np.uint8), keys[:count]
        expected = sorted(zip(*(each.tolist() for each in join.push(*push)), strict=True))
        assert sorted(zip(*(each.tolist() for each in contender.push(*push)), strict=True)) == expected


def one_sided(workload, start, count, side):
    return np.full(count, side, np.uint8), workload.keys(start, count)


def answer_of(join, sides, keys):
    left, right = join.push(sides, keys)
    return {"matches": len(left), "checksum": (31 * int(left.sum()) + int(right.sum())) % 2**64}


def expected_answers(shape, workload, tuples, runs):
    """What a program must find: see benchmarks/peers/join_peer.cpp."""
    asked = 4096

    def new():
        return NumericJoin(workload.window, workload.lower, workload.upper, np.int32)

    join = new()
    if shape == "fill":
        for run in range(runs):
            join, start = new(), run * (tuples + asked)
            join.count(*one_sided(workload, start, tuples, 0))
            yield answer_of(join, *one_sided(workload, start + tuples, asked, 1))
        return
    start = 2 * workload.window
    join.count(*one_sided(workload, 0, start, 0))
    for run in range(runs):
        yield answer_of(join, *one_sided(workload, start + run * tuples, tuples, 1))


@needs_programs
@pytest.mark.parametrize("structure", ["absl", *PARAMETERS])
@pytest.mark.parametrize("shape", ["probe", "ask", "fill"])
def test_programs_find_the_pairs_of_one_sided_arrivals(structure, shape):
    if structure == "absl" and not ABSL:
        pytest.skip("needs libabsl-dev")
    options = {"structure": "absl"} if structure == "absl" else {"index": structure, "group": "64"}
    workload, tuples = Workload(300, matches=3, seed=5), 300
    with peer.Peer(PROGRAM, workload, tuples, shape=shape, push="64", **options) as native:
        for expected in expected_answers(shape, workload, tuples, 2):
            answer = native.run()
            assert {name: answer[name] for name in expected} == expected
            assert answer["bytes_per_tuple"] > 8


@needs_programs
@pytest.mark.parametrize("name", PARAMETERS)
def test_programs_take_every_parameter(name):
    workload = Workload(200, matches=2)
    join = workload.join()
    pushes = workload.sides(workload.warm, 500), workload.keys(workload.warm, 500)
    given = {each.name: max(each.least, min(each.most, 4 * each.default or 8)) for each in PARAMETERS[name]}
    contender = race.ours(name, workload, 500, parameters=given)
    with peer.Peer(PROGRAM, workload, 500, **contender.options) as native:
        expected = answer_of(join, *pushes)
        answer = native.run()
        assert {field: answer[field] for field in expected} == expected


@needs_programs
@pytest.mark.parametrize(
    "options",
    [{"index": "b-trie"}, {"options": "merge_ration=1"}, {"options": "merge_ratio"},
     {"options": "merge_ratio=x"}, {"options": "chain_length=2.5"}, {"shape": "round"}],
)  # fmt: skip
def test_programs_refuse_what_they_do_not_know(options):
    [(option, value)] = options.items()
    with pytest.raises(peer.UsageError, match=f"--{option} {re.escape(value)}; expected"):
        peer.Peer(PROGRAM, Workload(16), 10, **options)


# --- The document ---

DOCUMENT = (pathlib.Path(__file__).parents[2] / "docs" / "indexes.md").read_text(encoding="utf-8")


def sections():
    """The text of each index's section, by the index's name."""
    parts = re.split(r"^## (.*)$", DOCUMENT, flags=re.MULTILINE)
    return {title.strip("`"): text for title, text in zip(parts[1::2], parts[2::2], strict=True)}


@pytest.mark.parametrize("name", PARAMETERS)
def test_document_has_every_parameter_with_its_default_and_range(name):
    """A row reads: | `name` | default | least to most | about |."""
    rows = re.findall(r"^\| `(\w+)` \| (\S+) \| (\S+) to (\S+) \| .+ \|$", sections()[name], re.MULTILINE)
    told = [(parameter, *(number(text) for text in values)) for parameter, *values in rows]
    assert told == [(each.name, each.default, each.least, each.most) for each in PARAMETERS[name]]


def number(text):
    base, _, exponent = text.partition("^")
    return float(base) ** float(exponent) if exponent else float(base)


def test_document_shows_what_happens():
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
    assert blocks
    for block in blocks:
        example = doctest.DocTestParser().get_doctest(block, {}, "indexes.md", "indexes.md", 0)
        assert doctest.DocTestRunner().run(example).failed == 0


def test_document_starts_with_which_one():
    first = DOCUMENT.split("\n## ")[1]
    for name in PARAMETERS:
        assert f"`{name}`" in first
