"""What a report says about the machine."""

import subprocess

import pytest

import slidejoin
from benchmarks import machine


def test_every_fact_is_there():
    facts = machine.finished(machine.describe("compiler 1"))
    assert set(facts) == {
        "system",
        "architecture",
        "cpu",
        "cores",
        "usable_cores",
        "smt_siblings",
        "instruction_set",
        "instruction_sets",
        "python",
        "numpy",
        "slidejoin",
        "compiler",
        "commit",
        "dirty",
        "load_before",
        "load_after",
    }
    assert facts["slidejoin"] == slidejoin.__version__
    assert facts["compiler"] == "compiler 1"
    assert facts["instruction_set"] in facts["instruction_sets"]


def test_cores_of_one_physical_core_are_named(tmp_path):
    for number, siblings in enumerate(("0-1", "0-1", "2,10", "3", "2,10")):
        topology = tmp_path / f"cpu{number}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(f"{siblings}\n")
    assert machine.smt_siblings(tmp_path) == ["0-1", "2,10"]
    assert machine.smt_siblings(tmp_path / "nowhere") is None


def git(root, *words):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "-C", root, *identity, *words], check=True, capture_output=True)


def test_commit_and_changes_of_a_checkout(tmp_path):
    if machine.git_state(tmp_path) != (None, None):
        pytest.skip("the folder for temporary files is inside a checkout")
    git(tmp_path, "init")
    assert machine.git_state(tmp_path) == (None, False)
    git(tmp_path, "commit", "--allow-empty", "-m", "one")
    commit, dirty = machine.git_state(tmp_path)
    assert len(commit) == 40
    assert dirty is False
    (tmp_path / "new").write_text("")
    assert machine.git_state(tmp_path) == (commit, True)


def test_no_git_is_not_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.git_state(tmp_path) == (None, None)


def test_load_may_be_unknown(monkeypatch):
    def fail():
        raise OSError

    monkeypatch.setattr(machine.os, "getloadavg", fail)
    assert machine.load() is None
