"""Copies of the package, with a mistake or without, under the tests of pytest.

A copy has the compiled module linked in, and hides the installed package. Hypothesis chooses the same
examples each time and does not shrink them (profile "mutants" in conftest.py): a verdict can be repeated.
"""

import hashlib
import importlib.metadata
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "slidejoin"
TESTS = ROOT / "tests"
MEMORY = 16 << 30  # of a test that a mistake makes greedy; Arrow reserves much that it never uses

START = """
import sys
copy = sys.argv[1]
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in type(finder).__module__]
sys.path.insert(0, copy)
import slidejoin
assert slidejoin.__file__.startswith(copy), slidejoin.__file__
import pytest
sys.exit(pytest.main(["-x", "--tb=no", "-p", "no:xdist", "-p", "no:cacheprovider", *sys.argv[2:]]))
"""


class BrokenCopyError(Exception):
    """A copy that cannot be imported, or tests that cannot be collected with it."""


def compiled_module() -> pathlib.Path:
    """The compiled module of the installed package."""
    import slidejoin._core

    return pathlib.Path(slidejoin._core.__file__)


def make_copy(tree: pathlib.Path) -> pathlib.Path:
    """Copy the package into a directory; returns the copy."""
    copy = tree / "slidejoin"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    module = compiled_module()
    (copy / module.name).symlink_to(module)
    return copy


def key(copy: pathlib.Path, tests: tuple[str, ...]) -> str:
    """What a verdict depends on: the copy, the tests with what they import, the libraries."""
    versions = [importlib.metadata.version(name) for name in ("numpy", "pyarrow", "hypothesis", "pytest")]
    content = hashlib.sha256("\0".join([sys.version, *versions, *tests]).encode())
    for file in sorted(copy.rglob("*")):
        if file.is_file():
            content.update(str(file.relative_to(copy)).encode() + b"\0" + file.read_bytes())
    for file in sorted(
        imported({TESTS / test.partition("::")[0] for test in tests} | {TESTS / "conftest.py"})
    ):
        content.update(file.read_bytes())
    return content.hexdigest()[:40]


def imported(files: set[pathlib.Path]) -> set[pathlib.Path]:
    """Test files and the modules of tests/ that they import."""
    found = set(files)
    for file in files:
        names = re.findall(r"^(?:from|import) ([\w.]+)", file.read_text(), re.M)
        modules = {TESTS / f"{name.replace('.', '/')}.py" for name in names}
        found |= imported({module for module in modules - files if module.exists()})
    return found


def run_tests(copy: pathlib.Path, tests: tuple[str, ...], most: float) -> str | None:
    """Run the tests with a copy, until one fails. Returns what failed, or None."""
    command = [sys.executable, "-c", START, str(copy.parent), *(str(TESTS / test) for test in tests)]
    environment = os.environ | {
        "SLIDEJOIN_TESTS": "mutants",
        "PYTHONDONTWRITEBYTECODE": "1",
        "COLUMNS": "300",
    }
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=most,
        preexec_fn=limit_memory, check=False,
    )  # fmt: skip
    if done.returncode == 0:
        return None
    if done.returncode < 0:
        return f"crash ({signal.Signals(-done.returncode).name})"
    failed = re.search(r"^FAILED tests/(\S+?)::(.*?)(?: - (.*))?$", done.stdout, re.M)
    if done.returncode != 1 or not failed:
        raise BrokenCopyError((done.stdout + done.stderr)[-500:])
    return f"{failed[1]}: {failed[2]}" + (f": {failed[3]}" if failed[3] else "")


def limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
