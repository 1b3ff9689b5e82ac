"""The seeded bugs (tests/mutants): all of them still apply, and the runner tells what becomes of one.

`make mutants` makes all the mistakes, which takes half an hour; here one of the core is made for real,
SLIDEJOIN_TESTS=long makes one in each Python file that has any.
"""

import os
import pathlib
import re
import shutil

import pytest
from mutants import run

MUTANTS = run.read_mutants()

needs_compiler = pytest.mark.skipif(
    not shutil.which(os.environ.get("CXX", "g++")), reason="needs the compiler that CXX names, or g++"
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_still_applies(mutant: run.Mutant) -> None:
    text = mutant.path.read_text()
    changed = mutant.apply(text)
    assert changed != text
    assert mutant.means
    assert mutant.tests
    if mutant.in_package:
        compile(changed, mutant.file, "exec")
        assert all((run.ROOT / "tests" / test).is_file() for test in mutant.tests)
    else:
        assert set(mutant.tests) <= set(run.TESTS)


@pytest.mark.parametrize("header", sorted((run.CORE / "index").glob("*.hpp")), ids=lambda path: path.stem)
def test_every_header_of_an_index_has_mutants(header: pathlib.Path) -> None:
    assert any(mutant.file == f"index/{header.name}" for mutant in MUTANTS)


@pytest.mark.parametrize("kind", run.STRUCTURES)
def test_every_structure_has_mutants(kind: str) -> None:
    """In its header and in those that it is made of."""
    _, header = run.STRUCTURES[kind]
    text = (run.CORE / "index" / f"{header}.hpp").read_text()
    parts = {header, *re.findall(r'^#include "(\w+).hpp"', text, re.MULTILINE)} - {"concept"}
    assert sum(mutant.file in {f"index/{part}.hpp" for part in parts} for mutant in MUTANTS) >= 3


@pytest.mark.parametrize("kind", run.STRUCTURES)
def test_every_structure_has_a_test_file(kind: str) -> None:
    assert any(kind in kinds for test, kinds in run.TESTS.items() if test not in run.WHOLE_JOIN)


def test_the_outcome_is_kept_for_every_mutant() -> None:
    text = run.RESULTS.read_text()
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| ")][1:]
    assert [row[1].strip() for row in rows] == [mutant.name for mutant in MUTANTS]
    assert "**NOT FOUND**" not in text
    assert "**does not" not in text


PYTHON = {mutant.file: mutant for mutant in MUTANTS if mutant.in_package}
in_the_long_form = pytest.mark.skipif(
    os.environ.get("SLIDEJOIN_TESTS") != "long", reason="SLIDEJOIN_TESTS=long: runs pytest for each mistake"
)


@in_the_long_form
@pytest.mark.parametrize("file", PYTHON)
def test_a_mistake_in_the_package_is_found(file: str) -> None:
    runner = run.Runner()
    mutant = PYTHON[file]
    assert runner.check_base_python(mutant.tests) is None
    outcome = runner.run(mutant)
    assert (outcome.word, outcome.good) == ("found", True)
    assert outcome.by.startswith(mutant.tests)


@in_the_long_form
def test_what_becomes_of_a_mistake_in_the_package() -> None:
    runner = run.Runner()
    tests = ("test_order.py",)
    assert runner.check_base_python(tests) is None
    for word, find, replace in (
        ("NOT FOUND", "rows that wait for other sources", "rows that wait"),
        ("does not apply", "no such text", ""),
        ("does not compile", "class TimedRows:", "klass TimedRows:"),
    ):
        outcome = runner.run(run.Mutant("a change", "order/waiting.py", find, replace, "", tests))
        assert (outcome.word, outcome.good) == (word, False)


def changed(find: str, replace: str) -> run.Mutant:
    return run.Mutant("a change", "window.hpp", find, replace, "", ("test_window",))


@needs_compiler
def test_the_runner_tells_apart_what_becomes_of_a_mutant() -> None:
    runner = run.Runner()
    level = runner.level_of(changed("", ""), "test_window")
    assert runner.check_base("test_window", level) is None
    found = runner.run(next(each for each in MUTANTS if each.name == "rows-one-too-few"))
    assert (found.word, found.good) == ("found", True)
    assert "count_window_keeps_each_side_apart" in found.by
    outcomes = {
        "NOT FOUND": changed(
            "static constexpr std::uint64_t kWaste = 4096;", "static constexpr int kWaste = 4096;"
        ),
        "does not apply": changed("no such text", ""),
        "does not compile": changed("class Window {", "klass Window {"),
    }
    for word, mutant in outcomes.items():
        outcome = runner.run(mutant)
        assert (outcome.word, outcome.good) == (word, False)
