"""Chunks: rows of a join, written once and named ever after, so that a snapshot costs only what is new.

A chunk is an immutable run of positions of one side. :class:`ChunkLog` knows which rows stand in which chunk
and what the holder of an earlier snapshot lacks; :class:`Increment` is what it is given.
"""

import math
import operator
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import EllipsisType
from typing import NamedTuple

from slidejoin.errors import StateError
from slidejoin.snapshot.binary import JSON, TOP, Data, as_bytes, checksum, is_natural


@dataclass(frozen=True)
class Increment:
    """What changed since a token: keep ``chunks``, delete ``dead``, replace ``head``.

    Write the chunks first, then the head, then delete: whatever comes between, a head and its chunks are
    there. ``WindowJoin.restore(head, chunks=all_kept)`` goes on from there; ``token`` asks for what is new
    next time. The head needs the chunks in ``alive`` and no others: what a crash left behind may go, too.
    """

    token: str
    head: bytes = field(repr=False)
    chunks: dict[str, bytes] = field(repr=False)
    dead: tuple[str, ...]
    alive: tuple[str, ...]


def check_chunks(expected: Mapping[str, JSON], given: Mapping[str, Data]) -> dict[str, memoryview]:
    """The chunks that a head names, each with the checksum it had when written; others are left out.

    Parameters
    ----------
    expected : mapping
        :func:`checksum` of each chunk by its id.
    given : mapping
        The chunks at hand; more than the expected ones are no harm, such as dead ones not deleted yet.
    """
    if missing := [name for name in expected if name not in given]:
        raise StateError(f"{len(missing)} of {len(expected)} chunks are missing, {missing[0]!r} first")
    chunks = {name: as_bytes(given[name]) for name in expected}
    for name, chunk in chunks.items():
        if type(expected[name]) is not int or checksum(chunk) != expected[name]:
            raise StateError(f"chunk {name!r} is not the one that the head was written with, or is damaged")
    return chunks


class Chunk(NamedTuple):
    """An immutable run of positions of one side, written once."""

    id: str
    side: int
    start: int
    stop: int
    generation: int


class _Dead(NamedTuple):
    id: str
    born: int
    died: int


_ID = re.compile(r"([LR])(0|[1-9][0-9]{0,18})-(0|[1-9][0-9]{0,18})-([0-9a-f]{12})", re.ASCII)
_TOKEN = re.compile(r"([0-9a-f]{12})-(0|[1-9][0-9]{0,18})", re.ASCII)
_NONCE = re.compile(r"[0-9a-f]{12}", re.ASCII)


class ChunkLog:
    """Which rows of each side stand in which chunk, generation by generation.

    Each :meth:`advance` begins a generation. A token names one; :meth:`since` tells what its holder lacks.
    A log that was read back draws a new nonce at its next generation: two joins that go on from one
    snapshot give different ids, and a token of one is refused by the other.

    Memory: O(chunks alive + chunks that died in the last ``KEPT`` generations).

    Examples
    --------
    >>> log = ChunkLog()
    >>> [(chunk.side, chunk.start, chunk.stop) for chunk in log.advance((0, 0), (100, 7))]
    [(0, 0, 100), (1, 0, 7)]
    >>> token = log.token
    >>> [(chunk.side, chunk.start, chunk.stop) for chunk in log.advance((100, 0), (130, 7))]
    [(0, 100, 130)]
    >>> new, dead = log.since(token)
    >>> len(new), dead == ["L1-0-" + token[:12]]
    (1, True)
    """

    KEPT = 1024

    def __init__(self) -> None:
        self.alive: list[Chunk] = []
        self._generation = 0
        self._branches = [(0, secrets.token_hex(6))]  # from which generation on a nonce holds
        self._fork = False
        self._firsts = (0, 0)
        self._nexts = (0, 0)
        self._dead: list[_Dead] = []

    @property
    def token(self) -> str:
        """A text that stands for the current generation."""
        return f"{self._branches[-1][1]}-{self._generation}"

    def advance(
        self,
        firsts: tuple[int, int],
        nexts: tuple[int, int],
        since: str | EllipsisType | None = ...,
        fanout: int | None = None,
        history: int | None = None,
    ) -> list[Chunk]:
        """Begin a generation, and return its chunks, which the caller must write now.

        Parameters
        ----------
        firsts, nexts : (int, int)
            The positions that each side keeps: from the first to before the next.
        since : str or None, optional
            A token: chunks newer than it are cut anew, so that ``since(token)`` gives exactly the chunks
            returned, whose rows are all still there. None cuts all anew.
        fanout : int, optional
            Where so many chunks at the end of a side are of one size or less, they are cut anew as one. Then
            there are O(log rows) of them, and a row is written O(log rows) times at most.
        history : int, optional
            How many generations back a token stays known; ``KEPT`` at most.

        Notes
        -----
        Cost: O(chunks alive). Bad arguments change nothing.
        """
        known = math.inf if since is ... else -1 if since is None else self._known(since)
        firsts, nexts = (_positions(firsts), _positions(nexts))
        for side in (0, 1):
            if not (self._firsts[side] <= firsts[side] <= nexts[side] and self._nexts[side] <= nexts[side]):
                raise StateError(
                    f"rows {firsts[side]} to {nexts[side]} of side {side}, which had rows "
                    f"{self._firsts[side]} to {self._nexts[side]}; positions never go back"
                )
        generation = self._generation + 1
        if self._fork:
            self._branches.append((generation, secrets.token_hex(6)))
        nonce = self._branches[-1][1]
        held = [self._tidy(side, firsts[side], nexts[side], known, fanout) for side in (0, 1)]
        keep = [
            chunk
            for chunk in self.alive
            if chunk.stop > firsts[chunk.side] and chunk.generation <= held[chunk.side]
        ]
        kept = {chunk.id for chunk in keep}
        dead = [_Dead(c.id, c.generation, generation) for c in self.alive if c.id not in kept]
        new = []
        for side in (0, 1):
            recut = [c.start for c in self.alive if c.side == side and c.generation > held[side]]
            start = max(firsts[side], min([self._nexts[side], *recut]))
            if start < nexts[side]:
                name = f"{'LR'[side]}{generation}-{start}-{nonce}"
                new.append(Chunk(name, side, start, nexts[side], generation))
        oldest = generation - min(self.KEPT if history is None else history, self.KEPT)
        self._dead = [entry for entry in self._dead if entry.died > oldest] + dead
        self._branches = [
            branch
            for branch, after in zip(self._branches, [*self._branches[1:], (TOP, "")], strict=True)
            if after[0] > oldest
        ]
        start, nonce = self._branches[0]
        self._branches[0] = (max(start, oldest), nonce)
        self.alive = keep + new
        self._generation, self._firsts, self._nexts, self._fork = generation, firsts, nexts, False
        return new

    def _tidy(self, side: int, first: int, after: int, held: float, fanout: int | None) -> float:
        """Up to which generation the chunks of a side stay as they are."""
        kept = [c for c in self.alive if c.side == side and c.stop > first and c.generation <= held]
        while fanout is not None:
            new = after - max(first, kept[-1].stop if kept else first)
            small = len(kept)
            while small and _size(kept[small - 1].stop - max(first, kept[small - 1].start)) <= _size(new):
                small -= 1
            if len(kept) - small < fanout - 1 or new == 0:
                break
            held = kept[small].generation - 1
            del kept[small:]
        return held

    def since(self, token: str | None) -> tuple[list[Chunk], list[str]]:
        """Chunks alive and newer than the token, and ids of the dead that its holder may have.

        None: all alive, and all dead that are known. Cost: O(chunks alive + dead ones known).
        """
        if token is None:
            return list(self.alive), [entry.id for entry in self._dead]
        held = self._known(token)
        new = [chunk for chunk in self.alive if chunk.generation > held]
        return new, [entry.id for entry in self._dead if entry.born <= held < entry.died]

    def _known(self, token: str) -> int:
        """The generation of a token."""
        found = _TOKEN.fullmatch(token) if isinstance(token, str) else None
        if found is None:
            raise StateError(f"token={token!r} is not one that a snapshot gave")
        nonce, generation = found[1], int(found[2])
        full = "take a full snapshot, with None"
        stops = [start for start, _ in self._branches[1:]] + [self._generation + 1]
        for (start, name), stop in zip(self._branches, stops, strict=True):
            if name != nonce:
                continue
            if generation >= stop:
                raise StateError(f"token={token!r} is newer than the state this join goes on from; {full}")
            known = min(self._generation - start, self.KEPT)
            if generation < self._generation - known:
                raise StateError(
                    f"token={token!r} is {self._generation - generation} snapshots old; the dead of the "
                    f"last {known} are known: {full}"
                )
            return generation
        raise StateError(f"token={token!r} is of another join, or too old to be known; {full}")

    def to_json(self) -> dict[str, JSON]:
        """The log as JSON values, for the head of a snapshot; :meth:`from_json` reads them back."""
        return {
            "generation": self._generation,
            "branches": [list(branch) for branch in self._branches],
            "firsts": list(self._firsts),
            "nexts": list(self._nexts),
            "alive": [list(chunk) for chunk in self.alive],
            "dead": [list(entry) for entry in self._dead],
        }

    @classmethod
    def from_json(cls, data: JSON) -> "ChunkLog":
        """A log that goes on from :meth:`to_json`, with the same ids and token. Any fault is a StateError."""
        log = cls()
        try:
            _require(set(data) == set(log.to_json()), "its fields are others")
            log._generation = data["generation"]
            log._branches = [(start, nonce) for start, nonce in data["branches"]]
            log._firsts, log._nexts = _positions(data["firsts"]), _positions(data["nexts"])
            log.alive = [Chunk(*chunk) for chunk in data["alive"]]
            log._dead = [_Dead(*entry) for entry in data["dead"]]
            log._check()
        except (TypeError, ValueError, KeyError, IndexError) as error:
            raise StateError(f"the log of chunks is damaged: {error}") from None
        log._fork = True
        return log

    def _check(self) -> None:
        """Raise if the log is not one that calls of :meth:`advance` can have led to."""
        _require(is_natural(self._generation), "the generation is not a number")
        starts = [start for start, _ in self._branches]
        _require(all(map(is_natural, starts)) and starts == sorted(set(starts)) and starts, "branches")
        _require(starts[-1] <= self._generation, "a branch begins in the future")
        _require(all(isinstance(n, str) and _NONCE.fullmatch(n) for _, n in self._branches), "a nonce")
        _require(len({nonce for _, nonce in self._branches}) == len(starts), "a nonce stands there twice")
        stops: dict[int, int] = {}
        born = [0, 0]
        for chunk in self.alive:
            _require(all(map(is_natural, chunk[1:])) and chunk.side in (0, 1), f"chunk {chunk.id!r}")
            found = _ID.fullmatch(chunk.id)
            same = found and (found[1], int(found[2]), int(found[3])) == (
                "LR"[chunk.side], chunk.generation, chunk.start,
            )  # fmt: skip
            _require(same, f"chunk {chunk.id!r} has another name")
            _require(chunk.start < chunk.stop, f"chunk {chunk.id!r} has no rows")
            _require(chunk.start == stops.get(chunk.side, chunk.start), f"a gap before chunk {chunk.id!r}")
            _require(chunk.stop > self._firsts[chunk.side], f"chunk {chunk.id!r} is dead")
            _require(born[chunk.side] < chunk.generation <= self._generation, f"age of chunk {chunk.id!r}")
            stops[chunk.side], born[chunk.side] = chunk.stop, chunk.generation
        for side, (first, last) in enumerate(zip(self._firsts, self._nexts, strict=True)):
            _require(stops.get(side, first) == last, f"the chunks of side {side} end elsewhere than its rows")
            starts = [chunk.start for chunk in self.alive if chunk.side == side]
            _require(not starts or starts[0] <= first, f"the first rows of side {side} are in no chunk")
        for entry in self._dead:
            _require(_ID.fullmatch(entry.id) and all(map(is_natural, entry[1:])), f"dead {entry.id!r}")
            _require(0 < entry.born < entry.died <= self._generation, f"the age of dead {entry.id!r}")
            _require(entry.died > self._generation - self.KEPT, f"dead {entry.id!r} is forgotten by now")
        ids = [chunk.id for chunk in self.alive] + [entry.id for entry in self._dead]
        _require(len(set(ids)) == len(ids), "a chunk stands there twice")


def _size(rows: int) -> int:
    """The order of magnitude of a chunk, to the base 8."""
    return rows.bit_length() // 3


def _require(condition: object, what: str) -> None:
    if not condition:
        raise ValueError(what)


def _positions(pair: Sequence[int]) -> tuple[int, int]:
    _require(not any(isinstance(position, bool) for position in pair), "a position that is a flag")
    left, right = (operator.index(position) for position in pair)
    _require(is_natural(left) and is_natural(right), f"positions {left} and {right}")
    return left, right
