"""The package as users get it: names, types, silence, and a binary that runs on every processor."""

import logging
import pathlib
import shutil
import subprocess
import sys

import audit
import pytest

import slidejoin
from slidejoin import _core

ROOT = pathlib.Path(__file__).parent.parent


def test_stub_of_the_native_module_is_current(tmp_path):
    fresh = tmp_path / "_core.pyi"
    subprocess.run(
        [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "slidejoin._core", "-o", fresh], check=True
    )
    committed = ROOT / "src" / "slidejoin" / "_core.pyi"
    assert committed.read_text() == fresh.read_text(), "run: make stub"


def test_public_names():
    assert all(hasattr(slidejoin, name) for name in slidejoin.__all__)
    for name in ("SpecError", "SchemaError", "OrderError", "StateError", "CapacityError", "UsageError"):
        assert issubclass(getattr(slidejoin, name), slidejoin.Error)
    assert (ROOT / "src" / "slidejoin" / "py.typed").exists()


def test_version_is_said_once():
    assert f'version = "{slidejoin.__version__}"' in (ROOT / "pyproject.toml").read_text()


def test_logging_is_silent_by_default():
    handlers = logging.getLogger("slidejoin").handlers
    assert any(isinstance(handler, logging.NullHandler) for handler in handlers)


def test_importing_needs_no_extras():
    """The library works with NumPy and Arrow; typer, rich, pandas and the benchmarks stay out."""
    extras = ("typer", "rich", "duckdb", "pandas", "polars")
    code = f"import sys, slidejoin; print([name for name in {extras} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.skipif(
    not shutil.which("objdump") or len(_core.levels()) < 2,
    reason="needs binutils and a processor with vector instructions",
)
def test_shared_code_uses_baseline_instructions_only():
    """Functions outside the namespaces of the levels must run on any x86-64 processor."""
    found = audit.check_instructions(pathlib.Path(_core.__file__))
    assert set(_core.levels()) >= found
    assert len(found) > 1, "the listing shows no vector code at all: is the module stripped?"
