"""The documentation site is complete: public names, pages, notebooks. `make docs` builds it."""

import importlib
import inspect
import json
import pathlib
import re
import subprocess
import sys
import tomllib

import pytest

import slidejoin

ROOT = pathlib.Path(__file__).parent.parent
DOCS = ROOT / "docs"
NOTEBOOKS = sorted(DOCS.glob("notebooks/*.ipynb"))


def documented():
    """Names that the reference has a directive for."""
    found = set()
    for page in DOCS.glob("api/*.rst"):
        found |= set(re.findall(r"^\.\. auto\w+:: ([\w.]+)", page.read_text(encoding="utf-8"), re.MULTILINE))
    return found


def public_names():
    """Every name that users may rely on."""
    names = {f"slidejoin.{name}" for name in slidejoin.__all__}
    for part in ("model", "plan", "spark"):
        names |= {f"slidejoin.{part}.{name}" for name in importlib.import_module(f"slidejoin.{part}").__all__}
    testing = importlib.import_module("slidejoin.testing")
    names |= {
        f"slidejoin.testing.{name}"
        for name, value in vars(testing).items()
        if inspect.isfunction(value) and value.__module__ == testing.__name__ and not name.startswith("_")
    }
    errors = importlib.import_module("slidejoin.errors")
    names |= {
        f"slidejoin.{name}"
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, slidejoin.Error)
    }
    return names


def test_every_public_name_is_in_the_reference():
    missing = public_names() - documented()
    assert not missing, f"add them to a page of docs/api: {sorted(missing)}"


def test_the_reference_names_things_that_exist():
    for name in documented():
        parts = name.split(".")
        for length in range(len(parts), 0, -1):
            try:
                found = importlib.import_module(".".join(parts[:length]))
            except ModuleNotFoundError:
                continue
            for attribute in parts[length:]:
                found = getattr(found, attribute)
            break


def test_contents_lists_every_page_once():
    contents = tomllib.loads((DOCS / "contents.toml").read_text(encoding="utf-8"))
    listed = [page for part in contents["part"] for page in part["pages"]]
    pages = {
        str(path.relative_to(DOCS).with_suffix(""))
        for pattern in ("**/*.md", "**/*.rst", "**/*.ipynb")
        for path in DOCS.glob(pattern)
    }
    assert sorted(listed) == sorted(pages - {"index"}), "list each page in docs/contents.toml once"
    assert {part["under"] for part in contents["part"]} <= pages


def test_documents_name_pages_that_exist():
    texts = [ROOT / name for name in ("README.md", "CONTRIBUTING.md")] + sorted(ROOT.glob("src/**/*.py"))
    for text in texts:
        for name in re.findall(r"\bdocs/[a-z/-]+\.md", text.read_text(encoding="utf-8")):
            assert (ROOT / name).is_file(), f"{text.relative_to(ROOT)} names {name}"


def test_there_are_two_notebooks():
    assert len(NOTEBOOKS) >= 2


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_stored_without_outputs(path):
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None


def check_site(site):
    tool = ROOT / "tools/check_site.py"
    return subprocess.run([sys.executable, tool, site], capture_output=True, text=True, check=False)


def test_check_site_accepts_a_sound_site(tmp_path):
    (tmp_path / "a.html").write_text(
        '<h1 id="top">A</h1><a href="b.html#there">b</a><a href="https://x.y">x</a>'
    )
    (tmp_path / "b.html").write_text(
        '<p id="there"><a href="a.html">a</a><img src="data:image/png;base64,AA==">'
    )
    run = check_site(tmp_path)
    assert (run.returncode, run.stdout) == (0, "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('<a href="gone.html">', "index.html: gone.html leads nowhere"),
        ('<a href="#gone">', "index.html: #gone has no such anchor"),
        ('<a href="../outside.html">', "index.html: ../outside.html leads nowhere"),
        ('<img src="gone.png">', "index.html: gone.png leads nowhere"),
        ('<script src="https://cdn.test/x.js"></script>', "index.html: loads https://cdn.test/x.js"),
    ],
)
def test_check_site_finds(tmp_path, text, message):
    (tmp_path / "outside.html").write_text("outside")
    site = tmp_path / "site"
    site.mkdir()
    (site / "index.html").write_text(text)
    run = check_site(site)
    assert run.returncode == 1
    assert message in run.stdout


def test_check_site_needs_pages(tmp_path):
    assert check_site(tmp_path).returncode == 1
