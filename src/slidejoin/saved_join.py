"""SavedJoin: what every call of a join has around it, and the snapshots between calls.

A call has the join to itself, completes what an interrupt left undone, and hands over what the join owes.
"""

import time
import weakref
from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any, Self, TypeVar

import pyarrow as pa

from slidejoin.chunks import Chunks
from slidejoin.errors import CapacityError, UsageError
from slidejoin.live import LiveJoin
from slidejoin.physical_streams import PhysicalStreams
from slidejoin.progress import Owed, Waiting
from slidejoin.sampling import take
from slidejoin.snapshot.binary import Data
from slidejoin.snapshot.chunks import Increment
from slidejoin.snapshot.save import FANOUT, SnapshotWriter, restored
from slidejoin.spec import JoinSpec, check_spill
from slidejoin.spill import open_spill
from slidejoin.stats import JoinStats

T = TypeVar("T")


class SavedJoin:
    """A join that is called by one thread at a time, and can be saved between two calls."""

    def _start(self, live: LiveJoin) -> None:
        self._live = live
        self._sources: PhysicalStreams | None = None
        self._snapshots = SnapshotWriter(live)
        self._busy = False  # one thread at a time: a second one is told so
        self._reader: weakref.ref[Chunks] | None = None  # who is handed the results of a push in chunks
        self._final: JoinStats | None = None  # the counters of a closed join
        self.note: str | None = None  # what was saved with the snapshot that this join goes on from
        self._clock: Callable[[], int] = time.monotonic_ns
        self._last_seen = [self._clock()] * 2
        take(live)

    @property
    def spec(self) -> JoinSpec:
        """What is joined, checked."""
        return self._live.spec

    def snapshot(self, path: str | PathLike[str] | None = None, *, note: str | None = None) -> bytes:
        """All of the join's state, to go on later or elsewhere with :meth:`restore`.

        Parameters
        ----------
        path : path, optional
            Also write it to this file: whole or not at all, and on disk when the call returns. (A process
            that is killed meanwhile may leave a ``.slidejoin-*.tmp`` beside it.)
        note : str, optional
            Anything of yours that belongs to this state, such as how far the input was read; ``join.note``
            of the restored join.

        Returns
        -------
        bytes
            Rows, counters, watermark, sources and what waits in them; no code. Checksums guard it.

        Notes
        -----
        Cost: a copy of the rows held. To save a long window often, see :meth:`snapshot_since`.

        Examples
        --------
        >>> import slidejoin as sj
        >>> join = sj.WindowJoin(sj.equal("id"), sj.rows(10))
        >>> _ = join.push(left={"id": [1, 2]})
        >>> again = sj.WindowJoin.restore(join.snapshot())
        >>> again.push(right={"id": [2]}).to_pylist()
        [{'id': 2, 'id_right': 2}]
        """
        if path is not None and (not isinstance(path, str | PathLike) or "\0" in str(path)):
            raise UsageError(f"path={path!r}; expected the name of a file, or None")
        return self._told(lambda: self._snapshots.whole(self._sources, path, self._noted(note)))

    def snapshot_since(
        self,
        token: str | None = None,
        *,
        note: str | None = None,
        fanout: int = FANOUT,
        history: int | None = None,
    ) -> Increment:
        """What a snapshot has that an earlier one had not: new chunks of rows, and which ones are dead.

        Parameters
        ----------
        token : str, optional
            ``token`` of the last increment that was kept; None for the first time, or to begin anew.
        note : str, optional
            As for :meth:`snapshot`.
        fanout : int
            Chunks of about one size before they are written anew as one, 2 at least: with more of them fewer
            bytes are written, and there are more chunks to read back.
        history : int, optional
            How many increments back a token stays known, 1 at least; 1024 unless told. The head names every
            chunk that died since then.

        Returns
        -------
        Increment
            Keep its ``chunks`` by their ids, delete those in ``dead``, replace ``head``. Then
            ``WindowJoin.restore(head, chunks=kept)`` goes on from here.

        Notes
        -----
        Cost: a copy of the rows that are new since the token; small chunks are joined now and then, so that a
        row is written O(log window) times at most. Outer joins add a bit for each row held.

        Examples
        --------
        >>> import slidejoin as sj
        >>> join, kept, token = sj.WindowJoin(sj.equal("id"), sj.rows(10)), {}, None
        >>> for ids in ([1, 2], [3]):
        ...     _ = join.push(left={"id": ids})
        ...     new = join.snapshot_since(token)
        ...     kept.update(new.chunks)
        ...     token, head = new.token, new.head
        >>> sj.WindowJoin.restore(head, chunks=kept).push(right={"id": [2, 3]}).num_rows
        2
        """
        if not _is_from(fanout, 2):
            raise UsageError(f"fanout={fanout!r}; expected a number of chunks, 2 at least")
        if history is not None and not _is_from(history, 1):
            raise UsageError(f"history={history!r}; expected a number of increments, 1 at least, or None")
        return self._told(
            lambda: self._snapshots.since(self._sources, token, self._noted(note), fanout, history)
        )

    @classmethod
    def restore(
        cls,
        data: Data | str | PathLike[str],
        *,
        chunks: Mapping[str, Data] | None = None,
        index: str | None = None,
        spill: str | PathLike[str] | None = None,
    ) -> Self:
        """Go on from a snapshot: the same positions, the same future results.

        Parameters
        ----------
        data : bytes or path
            What :meth:`snapshot` gave, or the file it wrote; or the ``head`` of an increment.
        chunks : mapping of id to bytes, optional
            The chunks that were kept, for a head. Others than the head names are ignored.
        index : str, optional
            Another index than before.
        spill : path, optional
            As for the join that is restored; a snapshot does not remember it.

        Raises
        ------
        StateError
            The snapshot is truncated, damaged, or of a newer version.
        OSError
            The file cannot be read.
        """
        read = restored(data, chunks, index, open_spill(check_spill(spill)))
        join = cls.__new__(cls)
        join._start(read.live)
        join._sources, join._snapshots, join.note = read.sources, read.writer, read.note
        join._live.sourced = read.sources is not None
        return join

    # --- one call ---

    def _returned(
        self,
        collected: Callable[[], tuple[pa.Table, Owed, Waiting]],
        call: Callable[..., None] | None = None,
        *arguments: Any,
        open_only: bool = True,
    ) -> pa.Table:
        """Make a call and return what it owes.

        An interrupt comes before the last two lines, and what is owed stays, or after them: Python looks for
        one only where it calls or begins a function, or jumps back.
        """
        if self._busy:
            raise UsageError(_BUSY)
        self._busy = True
        try:
            self._settle(open_only)
            if call is not None:
                call(*arguments)
            live = self._live
            result, live.owed, live.waiting = collected()
            return result
        except MemoryError as error:
            raise _out_of_memory(error) from error
        finally:
            self._busy = False

    def _told(
        self,
        call: Callable[..., T],
        *arguments: Any,
        open_only: bool = True,
        settles: bool = True,
        counts: bool = False,
    ) -> T:
        """Make a call that leaves what is owed alone; one that ``counts`` can come between two chunks."""
        if self._busy:
            raise UsageError(_BUSY)
        self._busy = True
        try:
            if settles:
                self._settle(open_only, counts)
            return call(*arguments)
        except MemoryError as error:
            raise _out_of_memory(error) from error
        finally:
            self._busy = False

    def _settle(self, open_only: bool, counts: bool = False) -> None:
        """Complete an interrupted call, and refuse another one if the join has ended."""
        live = self._live
        if live.step is not None or live.trim is not None:
            live.settle()
        if self._reader is not None and not (counts and self._reader() is not None):
            self._end_reader("another call has joined the rest of this push")
        if live.remainder is not None and self._reader is None:  # an interrupted push
            live.drain()
        if open_only and live.waiting.ended:
            raise UsageError(f"the join is {live.waiting.ended}; make a new one")

    def _end_reader(self, why: str) -> None:
        """Join what is left of a push in chunks, and drop its results."""
        reader = self._reader() if self._reader is not None else None
        if reader is not None and (self._live.remainder is not None or self._live.owed or reader.is_ready):
            reader.ended = why
            reader.drop()
        self._live.abandon()
        self._reader = None

    @staticmethod
    def _noted(note: str | None) -> str | None:
        if note is not None and not isinstance(note, str):
            raise UsageError(f"note={note!r}; expected a text, such as json.dumps(...) gives")
        return note


_BUSY = "this join is in use by another thread; call it from one thread, or hold a lock around each call"


def _out_of_memory(error: MemoryError) -> CapacityError:
    return CapacityError(
        f"memory ran out ({error}); nothing is lost: free memory, and repeat the call if join.stats does not "
        "count its rows"
    )


def _is_from(number: Any, least: int) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= least
