"""A reader copies programs from the pages: they are those of examples/, which tests/test_docs.py runs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = {
    "kafka": "kafka_join",
    "directory": "growing_directory",
    "websockets": "websocket_feeds",
    "pandas": "pandas_chunks",
}


@pytest.mark.parametrize(("page", "example"), PAGES.items())
def test_pages_show_the_programs_as_they_are(page, example):
    text = (ROOT / "docs" / "recipes" / f"{page}.md").read_text(encoding="utf-8")
    program = (ROOT / "examples" / f"{example}.py").read_text(encoding="utf-8")
    assert f"```py\n{program}```" in text, "copy the example into the page"
    assert f"recipes/{page}.md" in (ROOT / "docs" / "drivers.md").read_text(encoding="utf-8")


def test_every_page_is_listed_here():
    assert {path.stem for path in (ROOT / "docs" / "recipes").glob("*.md")} >= set(PAGES)


def test_options_on_the_pages_exist():
    text = (ROOT / "docs" / "recipes" / "kafka.md").read_text(encoding="utf-8")
    program = (ROOT / "examples" / "kafka_join.py").read_text(encoding="utf-8")
    for option in set(re.findall(r"--[a-z-]+", text.split("## The program")[0])):
        assert f'"{option}"' in program, option
