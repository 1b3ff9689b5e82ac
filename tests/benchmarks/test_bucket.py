"""The benchmark of the bucket-tree in its smallest form, and the streams that its programs make."""

import re

import pytest
from benchmark_programs import ABSL, PROGRAM, check_lines, needs_absl, needs_programs

from benchmarks import BENCHMARKS, bucket, indexes, numpy_peer, peer, race
from benchmarks.workload import Workload
from slidejoin import isa
from slidejoin.errors import StateError

OVER_ABSL = [">= 6", ">= 4", ">= 8", ">= 4.5", "<= 20", ">= 8", *[">= 2.5"] * 4]
OTHERS = [">= 0.7", ">= 1.5", ">= 1.1", ">= 0.55", ">= 0.65", ">= 0.25"]
NUMPY = [">= 4.5", ">= 5", ">= 7"]
PAUSES = ["<= 40", "<= 200"]
TABLES = [">= 4", ">= 4"]
KEYS = ("uniform", *bucket.SKEWED, "increasing", "decreasing")


@needs_absl
def test_smoke_run_fills_the_whole_table():
    said = []
    report = BENCHMARKS["bucket"].run(True, said.append)
    assert [
        result.target for result in report.results if result.target
    ] == OVER_ABSL + OTHERS + NUMPY + PAUSES + TABLES
    notes = {result.note for result in report.results if result.note and "longest" not in result.note}
    assert notes == (set() if set(bucket.LEVELS) <= set(isa.available()) else {bucket.NO_AVX512})
    longest = [result for result in report.results if result.note and "longest push" in result.note]
    assert [result.what.split(",")[0] for result in longest] == ["bucket-tree", "absl", "no join"]
    assert all("longest of pushes" in result.what and result.value > 0 for result in longest)
    check_lines(report.results)
    assert report.quick
    assert said


def test_without_native_programs_numpy_is_met_all_the_same(monkeypatch):
    monkeypatch.setattr(indexes, "program", lambda: None)
    report = bucket.run(True, lambda _: None)
    claims = [result for result in report.results if result.target]
    assert sorted(claim.target for claim in claims) == sorted(OVER_ABSL + OTHERS + NUMPY + PAUSES + TABLES)
    assert {claim.what for claim in claims if claim.note is None} == {
        claim.what for claim in claims if "NumPy" in claim.what or "sj.join" in claim.what
    }
    assert {claim.note for claim in claims} == {None, peer.BUILD}
    check_lines(report.results)


@needs_programs
def test_without_absl_its_lines_say_how_to_get_it(monkeypatch):
    monkeypatch.setattr(indexes, "about", lambda _: {"compiler": "any", "absl": False})
    report = bucket.run(True, lambda _: None)
    noted = [result for result in report.results if result.value is None and result.note != bucket.NO_AVX512]
    assert {result.note for result in noted} == {peer.INSTALL_ABSL}
    assert all("absl" in result.what for result in noted)
    assert len([result for result in noted if result.target]) == len(OVER_ABSL) - 1
    check_lines(report.results)


@needs_programs
def test_without_avx512_its_lines_say_so(monkeypatch):
    monkeypatch.setattr(bucket.isa, "available", lambda: ("portable",))
    results = list(bucket._widths(bucket.QUICK, race.Programs(PROGRAM, ABSL), lambda _: None))
    assert [result.note for result in results] == [None, bucket.NO_AVX512, bucket.NO_AVX512]


# --- Wrong answers ---


NATIVE = [part for part in bucket.PARTS if part not in (bucket._over_numpy, bucket._tables)]


@needs_programs
@pytest.mark.parametrize("field", ["matches", "checksum"])
@pytest.mark.parametrize(
    ("part", "wrong"),
    # The second program that each starts; of the skewed keys it is a witness, and the last one a contender.
    [*((part, 1) for part in NATIVE), (bucket._skewed, 2 * len(bucket.SKEWED) + 1)],
)
def test_a_wrong_answer_of_a_program_stops_the_benchmark(monkeypatch, part, wrong, field):
    if part in (bucket._over_absl, bucket._monotone, bucket._pauses) and not ABSL:
        pytest.skip("needs libabsl-dev")
    started = []

    class Wrong(peer.Peer):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self)

        def run(self):
            answer = super().run()
            return answer | {field: answer[field] + (started.index(self) == wrong)}

    monkeypatch.setattr(race, "Peer", Wrong)
    monkeypatch.setattr(bucket, "Peer", Wrong)
    with pytest.raises(StateError, match="disagree on the same arrivals"):
        list(part(bucket.QUICK, race.Programs(PROGRAM, ABSL), lambda _: None))


@pytest.mark.parametrize("wrong", numpy_peer.NUMPY_JOINS)
def test_a_wrong_answer_from_python_stops_the_benchmark(monkeypatch, wrong):
    class Forgetful(numpy_peer.NUMPY_JOINS[wrong]):
        def push(self, sides, keys):
            left, right = super().push(sides, keys)
            return left[1:], right[1:]

    monkeypatch.setitem(bucket.NUMPY_JOINS, wrong, Forgetful)
    with pytest.raises(StateError, match="disagree on the same arrivals"):
        list(bucket._over_numpy(bucket.QUICK, race.Programs(None, False), lambda _: None))


# --- The streams ---


def answers(workload, tuples, runs=1, **options):
    with peer.Peer(PROGRAM, workload, tuples, **options) as native:
        found = [native.run() for _ in range(runs)]
    return [(answer["matches"], answer["checksum"]) for answer in found]


@needs_absl
@pytest.mark.parametrize("keys", KEYS)
def test_every_structure_gets_the_same_keys_and_probes_meet_two(keys):
    workload, tuples = Workload(2**11), 2**13  # twice the windows: a whole turn of the abrupt keys
    expected = answers(workload, tuples, 2, structure="absl", keys=keys)
    for matches, _ in expected:
        assert matches / tuples == pytest.approx(2, rel=0.15)
    for group in ("1", "16"):
        assert answers(workload, tuples, 2, index="bucket-tree", group=group, keys=keys) == expected
    wide = answers(workload, tuples, 2, index="bucket-tree", group="16", keys=keys, bits="64")
    assert wide == expected


@needs_programs
def test_no_two_kinds_of_keys_are_the_same():
    found = [answers(Workload(2**10), 2**11, index="b-tree", keys=keys)[0] for keys in KEYS]
    mirrored = ("increasing", "decreasing")  # which find the same pairs
    assert len(set(found)) == len(KEYS) - 1
    assert len({found[KEYS.index(keys)] for keys in mirrored}) == 1


@needs_programs
@pytest.mark.parametrize(
    ("keys", "share"), [("uniform", 0.5), ("gauss", 0.5), ("increasing", 0), ("decreasing", 0)]
)
def test_partners_are_as_old_as_the_keys_say(keys, share):
    """Half a window on average where keys do not move, and hardly anything where they rise or fall."""
    workload, tuples = Workload(2**12), 2**14
    [(matches, checksum)] = answers(workload, tuples, index="b-tree", keys=keys)
    newest = (workload.warm + tuples / 2) / 2
    age = 2 * (newest - checksum / 32 / matches)  # one of a pair is the newest, the other is so much older
    assert age / workload.window == pytest.approx(share, abs=0.06)


@needs_programs
@pytest.mark.parametrize("structure", [{"index": "bucket-tree"}, {"structure": "spin"}])
def test_pauses_rise_with_their_rank_and_fall_with_replicas(structure):
    workload, tuples, ranks = Workload(2**10), 2**12, ("p50", "p99", "p99.9", "p99.99", "max")
    with peer.Peer(PROGRAM, workload, tuples, mode="pauses", push="16", replicas="3", **structure) as native:
        answer = native.run()
    seen, thread, least = ([answer[f"{kind}{rank}"] for rank in ranks] for kind in ("", "thread_", "least_"))
    for each in (seen, thread, least):
        assert each == sorted(each)
    assert all(0 < low <= high for low, high in zip(least, thread, strict=True))
    assert seen[0] > 0
    assert 0 <= answer["max_at"] < tuples // 16
    assert answer["max_faults"] >= 0
    assert answer["max_switches"] >= 0


@needs_programs
@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"keys": "zipf"}, "keys"),
        ({"keys": "drift"}, "keys"),
        ({"keys": "drift1x"}, "keys"),
        ({"bits": "16"}, "bits"),
        ({"mode": "pause"}, "mode"),
        ({"order": "arrival"}, "order"),
        ({"shape": "probe", "keys": "gauss"}, "shape"),
        ({"mode": "pauses", "shape": "fill"}, "mode"),
        ({"replicas": "2"}, "replicas"),
    ],
)
def test_programs_refuse_what_they_do_not_know(options, named):
    with pytest.raises(peer.UsageError, match=f"--{named} {re.escape(options[named])}; expected"):
        peer.Peer(PROGRAM, Workload(2**10), 10, **options)


@needs_programs
def test_increasing_keys_end_with_an_error_not_with_falling_ones():
    with pytest.raises(peer.UsageError, match="they have left 32 bits at arrival 150994944"):
        peer.Peer(PROGRAM, Workload(2**26), 10, keys="increasing")  # the first of a full window
