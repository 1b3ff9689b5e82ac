"""What the documents show is executed: README, pages, recipes, docstrings, examples."""

import doctest
import importlib
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
MODULES = tuple(
    f"slidejoin.{name}"
    for name in (
        "atomic_file", "cluster.blocks", "cluster.costs", "cluster.declustering", "cluster.extendible",
        "cluster.figures", "cluster.group", "cluster.hashing", "cluster.hot", "cluster.load",
        "cluster.master", "cluster.ownership", "cluster.reorganise", "cluster.settings",
        "cluster.simulation", "cluster.workload", "collector", "columns", "drive.bell", "drive.by_arrival",
        "drive.items", "drive.tables", "isa", "keys", "meter", "metrics",
        "model.costs", "model.index_cost", "model.join_model",
        "model.overload", "model.rates", "model.rational", "model.readiness", "model.remainders",
        "model.windows", "numeric", "order", "page.watch", "physical_streams", "predicate", "reference",
        "result", "run.formats", "run.recovery", "run.target", "snapshot.binary", "snapshot.chunks",
        "snapshot.parts", "source", "spark.arrivals",
        "spark.files", "spark.live", "spark.partition", "spark.spark_hash",
        "spec", "spill", "sorted_runs", "table_join", "testing", "window", "window_join",
    )
)  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0


EXAMPLES = [  # those of Spark are run by tests/spark
    path for path in sorted((ROOT / "examples").glob("*.py")) if not path.name.startswith("spark_")
]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples(path):
    run = subprocess.run([sys.executable, "-W", "error", path], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout


def python_blocks(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


RECIPES = [
    str(path.relative_to(ROOT))
    for path in sorted(ROOT.glob("docs/recipes/*.md"))
    if "## What it prints" in path.read_text()
]
PAGES = [
    page
    for page in ["README.md", *(str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("docs/**/*.md")))]
    if page not in RECIPES and python_blocks(page)
]


def test_guide_and_recipes_are_found():
    assert {"README.md", "docs/guide/windows.md", "docs/comparison.md"} <= set(PAGES)
    assert len(RECIPES) >= 4


@pytest.mark.parametrize("page", PAGES)
def test_pages(page):
    blocks = python_blocks(page)
    names = {}  # a reader goes on in the same session
    for block in blocks:
        test = doctest.DocTestParser().get_doctest(block, names, page, page, 0)
        if test.examples:
            assert doctest.DocTestRunner().run(test, clear_globs=False).failed == 0
            names = test.globs
        else:
            exec(compile(block, page, "exec"), names)


@pytest.mark.parametrize("page", RECIPES)
def test_recipes(page, tmp_path):
    """The program of a recipe prints what the page says."""
    (program,) = python_blocks(page)
    (expected,) = re.findall(
        r"## What it prints\n\n```text\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL
    )
    file = tmp_path / "recipe.py"
    file.write_text(program, encoding="utf-8")
    run = subprocess.run([sys.executable, "-W", "error", file], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout == expected


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 160


def test_readme_commands_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make ([a-z-]+)", (ROOT / "README.md").read_text(), re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
