"""The foundation benchmark in its smallest form, with and without the native programs."""

import pytest
from benchmark_programs import needs_programs

from benchmarks import foundation, peer
from benchmarks.workload import Feed, Workload
from slidejoin.errors import StateError, UsageError


def test_without_native_programs_the_rest_is_measured(monkeypatch):
    monkeypatch.setattr(foundation, "program", lambda: None)
    said = []
    report = foundation.run(True, said.append)
    claims = [result for result in report.results if result.target]
    assert len(claims) == 5
    assert {claim.note for claim in claims} == {peer.BUILD}
    assert {claim.value for claim in claims} == {None}
    information = [result for result in report.results if not result.target]
    assert all(result.value > 0 for result in information)
    assert said


def test_contenders_must_agree():
    agreement = foundation.Agreement()
    one = agreement.contender(lambda: foundation.Answer(1.0, 5, 7))
    same = agreement.contender(lambda: foundation.Answer(2.0, 5, 7))
    assert (one(), same()) == (1.0, 2.0)
    for wrong in (foundation.Answer(1.0, 6, 7), foundation.Answer(1.0, 5, 8)):
        with pytest.raises(StateError, match="disagree on the same arrivals"):
            agreement.contender(lambda wrong=wrong: wrong)()


def test_program_that_stops_is_reported(tmp_path):
    path = tmp_path / "join_peer"
    path.write_text("#!/bin/sh\necho no such option >&2\nexit 1\n")
    path.chmod(0o755)
    with pytest.raises(UsageError, match="no such option"):
        peer.Peer(path, Workload(16), 10)


def test_a_program_that_is_not_built_is_not_found(monkeypatch, tmp_path):
    monkeypatch.setattr(peer, "ROOT", tmp_path)
    assert peer.program() is None
    assert peer.about(None) == {"compiler": None, "absl": False}


@needs_programs
@pytest.mark.parametrize("structure", ["absl", "slidejoin"])
def test_native_programs_find_the_same_pairs(structure):
    path = peer.program()
    if structure == "absl" and not peer.about(path)["absl"]:
        pytest.skip("needs libabsl-dev")
    workload = Workload(300, matches=3, seed=5)
    with peer.Peer(path, workload, 2000, structure=structure, push="64") as native:
        python = foundation._python(Feed(workload, 64), 2000)
        for _ in range(2):
            expected, answer = python(), native.run()
            assert (answer["matches"], answer["checksum"]) == expected[1:]
            assert answer["tuples"] == 2000
