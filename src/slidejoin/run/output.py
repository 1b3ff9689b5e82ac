"""The output appears whole, or not at all.

A run writes into a hidden directory beside the output, ``.<output>.slidejoin``, whose result takes the
place of the output at the end. A run that fails removes the directory. A killed run leaves it, and the next
run with the same output removes it: a lock, which ends with its process, tells that nobody uses it any more.
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
from slidejoin.run.target import Target, check_free
from slidejoin.run.write import PartWriter, StreamWriter

RESULT = "result"  # a file or a directory
_LOCK, _OLD = "lock", "old"


def work_directory(output: Path) -> Path:
    """Where a run keeps what is not finished."""
    absolute = output.absolute()
    return absolute.with_name(f".{absolute.name}.slidejoin")


@contextmanager
def opened(target: Target, overwrite: bool, schema: pa.Schema) -> Iterator[StreamWriter | PartWriter]:
    """A writer of the result, which is complete if no error is raised."""
    writer: StreamWriter | PartWriter
    if target.path is None:
        writer = StreamWriter(target, sys.stdout.buffer, schema)
        yield writer
        writer.finish()
        return
    with published(target, overwrite) as path:
        if target.is_directory:
            with PartWriter(path, schema) as writer:
                yield writer
                writer.finish()
        else:
            with path.open("wb") as sink:
                writer = StreamWriter(target, sink, schema)
                yield writer
                writer.finish()


@contextmanager
def published(target: Target, overwrite: bool) -> Iterator[Path]:
    """A path to write a file or a directory to, which becomes the target if no error is raised."""
    assert target.path is not None, "standard output is written as it comes"
    check_free(target, overwrite)
    output = target.path.absolute()
    output.parent.mkdir(parents=True, exist_ok=True)
    work = work_directory(output)
    with _locked(work):
        try:
            _emptied(work)
            result = work / RESULT
            if target.is_directory:
                result.mkdir()
            yield result
            check_free(target, overwrite)  # it may have been filled meanwhile
            if output.is_dir():
                os.replace(output, work / _OLD)
            os.replace(result, output)
        finally:
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
