"""Print what pip must install for an extra of pyproject.toml, one requirement per line.

``pip install -e .[dev]`` would build every dependency that has no wheel in the same way as slidejoin itself,
without isolation, and fail. So dependencies are installed first, in the ordinary way, from this list.

    python tools/requirements.py build dev
"""

import re
import sys
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]


def requirements(name: str) -> list[str]:
    """The requirements of an extra; ``build`` compiles the core, ``floors`` are the oldest that do."""
    if name == "build":
        return [*PROJECT["build-system"]["requires"], "cmake>=3.25", "ninja"]
    found = list(PROJECT["project"]["dependencies"])
    if name == "floors":
        return [requirement.replace(">=", "==") + ".*" for requirement in found]
    for requirement in EXTRAS[name]:
        extras = re.fullmatch(r"slidejoin\[(.+)\]", requirement)
        found += (
            [r for extra in extras[1].split(",") for r in requirements(extra)] if extras else [requirement]
        )
    return found


if __name__ == "__main__":
    lines = dict.fromkeys(line for name in sys.argv[1:] for line in requirements(name))
    sys.stdout.write("\n".join(lines) + "\n")
