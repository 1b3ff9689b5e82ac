"""The output appears whole, or not at all.

A run writes into a hidden directory beside the output, ``.<output>.slidejoin``, whose result takes the
place of the output at the end. A run that fails removes the directory, unless it has saved its state there.
A killed run leaves it, and the next run with the same output removes or continues it: a lock, which ends with
its process, tells that nobody uses it any more.
"""

import fcntl
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from slidejoin.errors import SpecError
from slidejoin.run.formats import TEXTS
from slidejoin.run.target import Target, check_free
from slidejoin.run.write import PartWriter, StreamWriter

RESULT, STATE = "result", "state"  # a file or a directory; the snapshot of a run that can be continued
_LOCK, _OLD = "lock", "old"


def work_directory(output: Path) -> Path:
    """Where a run keeps what is not finished."""
    absolute = output.absolute()
    return absolute.with_name(f".{absolute.name}.slidejoin")


def open_writer(
    target: Target, place: Path | None, schema: pa.Schema, saved: dict[str, int] | None = None
) -> StreamWriter | PartWriter:
    """A writer of a file or directory, or of standard output where there is no place."""
    if place is None:
        return StreamWriter(target, sys.stdout.buffer, schema)
    if target.format in TEXTS:
        return StreamWriter(target, place.open("wb" if saved is None else "r+b"), schema, saved)
    return PartWriter(target, place, schema, saved)


@contextmanager
def published(target: Target, overwrite: bool, resume: bool = False) -> Iterator[Path | None]:
    """A path to write a file or a directory to, which becomes the target if no error is raised.

    None for standard output. Where the run has saved its state beside the path, an error leaves both, and a
    run with ``resume`` finds them again; one without refuses to remove them, unless it may overwrite.
    """
    if target.path is None:
        yield None
        return
    check_free(target, overwrite)
    output = target.path.absolute()
    output.parent.mkdir(parents=True, exist_ok=True)
    work = work_directory(output)
    result, state = work / RESULT, work / STATE
    with _locked(work):
        try:
            if resume and state.exists():
                _refuse_links(work)
            else:
                if state.exists() and not overwrite:
                    raise SpecError(
                        f"an interrupted run has left its state in {work}; continue it with --resume, or "
                        "start anew with --overwrite"
                    )
                _emptied(work)
                if target.is_directory:
                    result.mkdir()
            yield result
            check_free(target, overwrite)  # it may have been filled meanwhile
            if output.is_dir():
                os.replace(output, work / _OLD)
            os.replace(result, output)
            shutil.rmtree(work, ignore_errors=True)
        finally:
            if not state.exists():
                shutil.rmtree(work, ignore_errors=True)


@contextmanager
def _locked(work: Path) -> Iterator[None]:
    """Make the directory, and hold it alone."""
    if work.is_symlink():
        raise SpecError(f"{work} is a symbolic link, and results are not written through one; remove it")
    work.mkdir(exist_ok=True)
    lock = os.open(work / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise SpecError(
            f"another run is writing here ({work}); wait for it or choose another --output"
        ) from None
    try:
        yield
    finally:
        os.close(lock)


def _emptied(work: Path) -> None:
    """Remove what a killed run has left."""
    for entry in work.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != _LOCK:
            entry.unlink()


def _refuse_links(work: Path) -> None:
    """An interrupted run is continued only in its own directory."""
    for entry in work.rglob("*"):
        if entry.is_symlink():
            raise SpecError(f"{entry} is a symbolic link, which no run makes; start anew with --overwrite")
