"""Programs that are measured as processes: those of ``benchmarks/peers``, and other checkouts."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.workload import Workload
from slidejoin.errors import UsageError

ROOT = Path(__file__).resolve().parents[1]
BUILD = "run `make peers`"
INSTALL_ABSL = "install libabsl-dev, then run `make peers`"

# Other libraries get what slidejoin's core asks for by itself: huge pages (glibc 2.35 and newer).
HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


def program(name: str = "join_peer") -> Path | None:
    """Find the built program, if there is one."""
    path = ROOT / "build" / "release" / name
    return path if os.access(path, os.X_OK) else None


def about(path: Path | None) -> dict[str, Any]:
    """Ask what the program was built with: ``compiler``, and whether ``absl`` is in it."""
    if path is None:
        return {"compiler": None, "absl": False}
    done = subprocess.run([path, "--about"], capture_output=True, text=True, check=True)
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


class Program:
    """A running program whose windows are full; each :meth:`run` joins its next arrivals.

    Parameters
    ----------
    command : sequence of str
        The program with its arguments. It prints a line of JSON when it is ready, and one for each line of
        its standard input.
    environment : mapping, optional
        Variables that the program gets in addition to ours.
    repair : str
        What may help where the program stops.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], repair: str) -> None:
        self._repair = repair
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        self.ready = self._read()

    def run(self, command: str = "") -> dict[str, Any]:
        """Join the next arrivals, or do what is asked: ``seconds``, ``matches`` and what else it answers."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return self._read()

    def close(self) -> None:
        """End the program."""
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            _, message = self._process.communicate()
            raise UsageError(f"a program under measurement stopped: {message.strip()}; {self._repair}")
        answer: dict[str, Any] = json.loads(line)
        return answer


class Peer(Program):
    """A native program of ``benchmarks/peers``.

    Parameters
    ----------
    path : Path
        The program.
    workload : Workload
        The streams and the band.
    tuples : int
        Arrivals of one run.
    environment : dict, optional
        Variables that the program gets in addition to ours.
    options : str
        Further options of the program: ``structure="absl"``, ``group="16"``, ``push="8192"``…
    """

    def __init__(
        self,
        path: Path,
        workload: Workload,
        tuples: int,
        environment: Mapping[str, str] | None = None,
        **options: str,
    ) -> None:
        options |= {
            "window": str(workload.window),
            "matches": str(workload.matches),
            "seed": str(workload.seed),
            "tuples": str(tuples),
            "runs": str(2**32),
        }
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        super().__init__([str(path), "--wait", *words], environment or {}, f"{BUILD} to rebuild it")
