"""Check a built documentation site: all links and anchors exist, and nothing is loaded from elsewhere.

Sphinx checks what authors write; this checks what readers get, with links that the theme, notebooks and
docstrings have made. Exit status 1 if something is wrong.

    python tools/check_site.py build/docs
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
OWN_COPY = "the site must work offline: give it a copy"


class Page(HTMLParser):
    """The links and anchors of a page, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag names, links or loads."""
        values = {name: value for name, value in attrs if value is not None}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in LOADED and LOADED[tag] in values:
            self.loads.append(values[LOADED[tag]])


def problems(site: Path) -> list[str]:
    """What is wrong with a site, a line for each."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    if not pages:
        return [f"{site} has no pages; build them with make docs"]
    found = []
    for path, page in pages.items():
        name = path.relative_to(site)
        for link in page.links + page.loads:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loads and parts.scheme != "data":
                    found.append(f"{name}: loads {link}; {OWN_COPY}")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_relative_to(site) or not target.exists():
                found.append(f"{name}: {link} leads nowhere")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{name}: {link} has no such anchor")
    for path in sorted(site.rglob("*.css")):
        loaded = re.findall(r"url\(['\"]?(https?:[^)]+)\)", path.read_text(encoding="utf-8"))
        found += [f"{path.relative_to(site)}: loads {url}; {OWN_COPY}" for url in loaded]
    return found


if __name__ == "__main__":
    lines = problems(Path(sys.argv[1]).resolve())
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.exit(bool(lines))
