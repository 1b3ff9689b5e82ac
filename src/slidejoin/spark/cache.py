"""Cache: the live joins of a host, so that a micro-batch need not build its index from state again.

In two tiers. A worker process keeps live joins; one is right if the state that Spark gives has its token,
which no two attempts have in common. Since Spark hands a group to any of its workers, every chunk of state is
also a file on the host that all of them map into memory; checksums in the state tell whether it is right. A
cache that is wrong, old or gone costs time and nothing else.
"""

import contextlib
import itertools
import os
import tempfile
import time
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from slidejoin.atomic_file import write_file
from slidejoin.window_join import WindowJoin

MEMORY = 2**30  # bytes of live joins in one worker process
DISK = 4 * 2**30  # bytes of files on a host
UNUSED = 3600.0  # seconds after which the files of a query that is silent are removed

_SWEEP = 64  # writes of a process between two looks at all the files of the host
_writes = itertools.count()


class LiveJoins:
    """Live joins of this process by group, each with the token of its state; the ones used last are kept.

    Examples
    --------
    >>> import slidejoin as sj
    >>> joins = LiveJoins()
    >>> joins.put(("query", 3), "token", sj.WindowJoin(sj.equal("id"), 10), limit=10**6)
    >>> joins.take(("query", 3), "another") is None, len(joins)
    (True, 0)
    """

    def __init__(self) -> None:
        self._held: OrderedDict[tuple[str, int], tuple[str, WindowJoin, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def take(self, key: tuple[str, int], token: str) -> WindowJoin | None:
        """Take a join out: whoever fails with it in hand leaves none behind. ``None``: not there, or old."""
        held = self._held.pop(key, None)
        if held is None:
            return None
        if held[0] != token:
            held[1].close()
            return None
        return held[1]

    def put(self, key: tuple[str, int], token: str, join: WindowJoin, limit: int) -> None:
        """Keep a join; others go, those unused for longest first, while all together exceed the limit."""
        self._held.pop(key, None)
        self._held[key] = (token, join, int(join.stats["memory_bytes"]))
        while self._held and sum(size for _, _, size in self._held.values()) > limit:
            self._held.popitem(last=False)[1][1].close()


class ChunkFiles:
    """Chunks of state as files of this host, in a directory of their own for each group of a query.

    Whatever goes wrong with a file (a full disk, one that was removed) is as if it were not there.

    Parameters
    ----------
    query : str
        A name for directories; letters, digits and dashes.
    limit : int
        Bytes that all queries together may keep; the ones used last stay.
    root : path, optional
        Where: a directory of this user alone, which is made; one below the system's temporary one if none is
        given.
    """

    def __init__(self, query: str, limit: int, root: Path | None = None) -> None:
        self._root = root or Path(tempfile.gettempdir()) / f"slidejoin-{os.getuid()}"
        self._query = self._root / query
        self._limit = limit

    def read(self, group: int, names: Iterable[str]) -> dict[str, pa.Buffer]:
        """Those of the named chunks that are there, mapped into memory."""
        found = {}
        for name in names:
            with contextlib.suppress(OSError), pa.memory_map(str(self._query / str(group) / name)) as file:
                found[name] = file.read_buffer()
        return found

    def write(self, group: int, chunks: dict[str, bytes], alive: Iterable[str]) -> None:
        """Keep chunks, and remove those that are no longer alive."""
        if not self._limit:
            return
        directory = self._query / str(group)
        with contextlib.suppress(OSError):
            self._make(directory)
            os.utime(self._query)
            if next(_writes) % _SWEEP == 0:
                self.sweep()
            for name, data in chunks.items():
                write_file(directory / name, data, sync=False, mode=0o600)
            keep = set(alive)
            for file in directory.iterdir():
                if file.name not in keep:
                    file.unlink(missing_ok=True)

    def sweep(self) -> None:
        """Remove the files of queries that are silent, and the oldest ones while there are too many bytes."""
        now = time.time()
        files = []
        with contextlib.suppress(OSError):
            for query in self._root.iterdir():
                if now - query.stat().st_mtime > UNUSED:
                    _remove(query)
                    continue
                for file in query.glob("*/*"):
                    with contextlib.suppress(OSError):
                        facts = file.stat()
                        files.append((facts.st_mtime, facts.st_size, file))
        total = sum(size for _, size, _ in files)
        for _, size, file in sorted(files):
            if total <= self._limit:
                break
            with contextlib.suppress(OSError):
                file.unlink()
                total -= size

    def _make(self, directory: Path) -> None:
        """Make a directory that nobody else can read, in one that nobody else owns."""
        self._root.mkdir(mode=0o700, exist_ok=True)
        facts = self._root.lstat()
        if self._root.is_symlink() or facts.st_uid != os.getuid() or facts.st_mode & 0o077:
            raise OSError(f"{self._root} is not this user's alone")
        self._query.mkdir(mode=0o700, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)


def _remove(query: Path) -> None:
    with contextlib.suppress(OSError):
        for file in query.glob("*/*"):
            file.unlink(missing_ok=True)
        for directory in query.iterdir():
            directory.rmdir()
        query.rmdir()
