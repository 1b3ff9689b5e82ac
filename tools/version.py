"""The version of a release: check that a tag has it, and print what changed.

python tools/version.py --tag v0.2.0
python tools/version.py --notes
"""

import argparse
import re
import sys
from pathlib import Path

import requirements

CHANGES = Path(__file__).resolve().parents[1] / "CHANGELOG.md"


def notes(version: str, text: str) -> str:
    """The part of the changelog about a version."""
    parts = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    for part in parts:
        title, _, body = part.partition("\n")
        if re.match(rf"\[?v?{re.escape(version)}\b", title):
            return body.strip() + "\n"
    raise SystemExit(
        f"CHANGELOG.md has no section '## {version}'; it has {[p.split(chr(10))[0] for p in parts]}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tag", help="the tag of a release")
    parser.add_argument("--notes", action="store_true", help="print what changed")
    options = parser.parse_args()
    version = requirements.PROJECT["project"]["version"]
    changes = notes(version, CHANGES.read_text())
    if options.tag and options.tag != f"v{version}":
        raise SystemExit(f"the tag is {options.tag}, the version of pyproject.toml {version}: tag v{version}")
    if options.notes:
        sys.stdout.write(changes)


if __name__ == "__main__":
    main()
