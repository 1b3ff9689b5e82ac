"""Spill: the rows of a join in memory-mapped files of a directory, for windows larger than memory.

The core maps the columns that it stores, and room for blocks of nested columns, which have the format of
Arrow files (``core/spill.hpp``). No file has a name: the system frees them when the join is closed or the
process ends, however it ends. Several joins may use one directory at the same time.
"""

import contextlib
import os
import stat
import sys

import pyarrow as pa

from slidejoin import _core
from slidejoin.errors import CapacityError, SpecError
from slidejoin.log import LOGGER

# The least bytes by which the file of a column grows.
SEGMENT = 2**18
# Bytes of its files that a join keeps mapped, about; None: a quarter of the machine's memory.
MAPPED: int | None = None
# Bytes from which on a block of a nested column is written to a file.
BLOCK = 2**23


def open_spill(path: str | None) -> _core.NativeSpill | None:
    """The files of a join in a directory, which is created if it is missing; None for rows in memory.

    Parameters
    ----------
    path : str, optional
        A directory of the user. A link, a path with ``..`` and a link of another user on the way to it are
        refused: they may lead elsewhere.

    Raises
    ------
    SpecError
        The directory cannot be used; the message says why.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     files = open_spill(directory + "/rows")
    ...     files.path == directory + "/rows", os.listdir(files.path)
    (True, [])
    """
    if path is None:
        return None
    if sys.platform != "linux":
        raise SpecError(f"spill={path!r}: rows in mapped files need Linux; leave spill= out")
    _check_way(path)
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise SpecError(_unusable(path, str(error.strerror))) from None
    try:
        owner = os.fstat(directory).st_uid
        if owner != os.geteuid():
            raise SpecError(
                f"spill={path!r} belongs to user {owner}, not to you (user {os.geteuid()}); name a directory "
                "of your own, or one that is to be created"
            )
        mapped = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE") // 4 if MAPPED is None else MAPPED
        files = _core.NativeSpill(directory, os.path.abspath(path), SEGMENT, mapped)
        os.close(files.open_file())
    except CapacityError as error:
        raise SpecError(_unusable(path, str(error))) from None
    finally:
        os.close(directory)
    if files.is_memory:
        LOGGER.warning("spill=%r is a file system in memory (tmpfs): rows there take memory", path)
    return files


def spilled(files: _core.NativeSpill, array: pa.Array) -> pa.Array:
    """An array whose memory is a mapped file. Cost: one copy."""
    batch = pa.record_batch([array], [""])
    size = pa.MockOutputStream()
    _write(batch, size)
    room = pa.py_buffer(files.allocate(size.size()))
    _write(batch, pa.FixedSizeBufferWriter(room))
    return pa.ipc.open_file(room).get_batch(0).column(0)


def _write(batch: pa.RecordBatch, sink: pa.NativeFile) -> None:
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)


def can_spill(type_: pa.DataType) -> bool:
    """Whether a file gives the type back: not so for nested extension types that Arrow does not know."""
    schema = pa.schema([("", type_)])
    return bool(pa.ipc.read_schema(schema.serialize()).equals(schema))


def _check_way(path: str) -> None:
    if ".." in path.split(os.sep):
        raise SpecError(
            f"spill={path!r} has '..' in it; name the directory itself, {os.path.realpath(path)!r}"
        )
    whole = os.path.abspath(path)
    if os.path.islink(whole):
        raise SpecError(f"spill={path!r} is a link; name the directory itself, {os.path.realpath(path)!r}")
    while (whole := os.path.dirname(whole)) != os.sep:
        try:
            found = os.lstat(whole)
        except OSError:
            continue  # the caller will see
        if stat.S_ISLNK(found.st_mode) and found.st_uid not in (0, os.geteuid()):
            raise SpecError(
                f"spill={path!r} leads through {whole!r}, a link of user {found.st_uid}, who can point it "
                f"elsewhere; name the directory itself, {os.path.realpath(path)!r}"
            )


def _unusable(path: str, why: str) -> str:
    return (
        f"spill={path!r} cannot be used ({why}); expected a directory that you can write to, or the name "
        "of a new one in a directory that exists"
    )
