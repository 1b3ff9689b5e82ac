"""Where a benchmark ran: the machine, its load, and the versions of what was measured."""

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

import slidejoin
from benchmarks.peer import ROOT
from slidejoin import isa
from slidejoin.cores import usable_cores


def describe(compiler: str | None) -> dict[str, Any]:
    """Describe the machine for a report; :func:`finished` adds ``load_after``.

    Parameters
    ----------
    compiler : str, optional
        What built the native programs.
    """
    commit, dirty = git_state(ROOT)
    return {
        "system": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "usable_cores": usable_cores(),
        "smt_siblings": smt_siblings(),
        "instruction_set": isa.current(),
        "instruction_sets": list(isa.available()),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "slidejoin": slidejoin.__version__,
        "compiler": compiler,
        "commit": commit,
        "dirty": dirty,
        "load_before": load(),
        "load_after": None,
    }


def finished(machine: dict[str, Any]) -> dict[str, Any]:
    """Add the load of now, after the run."""
    return {**machine, "load_after": load()}


def cpu_model() -> str:
    """Name the processor as the system does."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def smt_siblings(root: Path = Path("/sys/devices/system/cpu")) -> list[str] | None:
    """List the cores that are threads of one physical core, as "0,8"; none where each is one of its own.

    None where the system does not tell.
    """
    groups = set()
    try:
        for path in root.glob("cpu[0-9]*/topology/thread_siblings_list"):
            groups.add(path.read_text(encoding="utf-8").strip())
    except OSError:
        return None
    if not groups:
        return None
    return sorted(
        (each for each in groups if not each.isdigit()),
        key=lambda each: int(each.replace("-", ",").split(",")[0]),
    )


def load() -> list[float] | None:
    """Read the load averages over 1, 5 and 15 minutes, where the system has them."""
    try:
        return [round(average, 2) for average in os.getloadavg()]
    except (AttributeError, OSError):
        return None


def git_state(root: Path) -> tuple[str | None, bool | None]:
    """Find the commit of a checkout and whether files differ from it; None where unknown."""
    commit = _git(root, "rev-parse", "--verify", "--quiet", "HEAD")
    changes = _git(root, "status", "--porcelain")
    return commit or None, None if changes is None else changes != ""


def _git(root: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *words], capture_output=True, text=True, check=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
