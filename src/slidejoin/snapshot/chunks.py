"""Chunks: rows of a join that are written once, so that a later snapshot only writes what is new.

A chunk is an immutable range of positions of one side. :class:`ChunkLog` records which rows are in which
chunk, and knows what the holder of an earlier snapshot lacks; :class:`Increment` is what the holder is given.
"""

import operator
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import EllipsisType
from typing import NamedTuple

from slidejoin.errors import StateError
from slidejoin.snapshot.binary import JSON, Data, Document, checksum, decode, is_natural


@dataclass(frozen=True)
class Increment:
    """What changed since a token: keep ``chunks``, delete ``dead``, replace ``head``.

    Write the chunks first, then the head, then delete: after a crash at any moment there is a head with all
    its chunks. ``WindowJoin.restore(head, chunks=all_kept)`` continues from there; ``token`` asks for what is
    new next time. The head needs the chunks in ``alive`` and no others: delete what a crash left behind.
    """

    token: str
    head: bytes = field(repr=False)
    chunks: dict[str, bytes] = field(repr=False)
    dead: tuple[str, ...]
    alive: tuple[str, ...]


def check_chunks(expected: Mapping[str, JSON], given: Mapping[str, Data]) -> dict[str, Document]:
    """Decode the chunks that a head names.

    Parameters
    ----------
    expected : mapping
        The checksum of each chunk by its id.
    given : mapping
        Encoded chunks. Those that are not expected are ignored, such as dead ones not deleted yet.
    """
    if missing := [name for name in expected if name not in given]:
        raise StateError(f"{len(missing)} of {len(expected)} chunks are missing, {missing[0]!r} first")
    chunks = {}
    for name in expected:
        try:
            chunks[name] = decode(given[name], "chunk")
            is_same = checksum(given[name], chunks[name].version) == expected[name]
        except StateError:
            is_same = False
        if not is_same:
            raise StateError(f"chunk {name!r} is not the one that the head was written with, or is damaged")
    return chunks


class Chunk(NamedTuple):
    """An immutable range of positions of one side, written once."""

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
    """Which rows of each side are in which chunk, generation by generation.

    Each :meth:`advance` begins a generation. A token names one; :meth:`since` tells what its holder lacks.
    A log that was read back draws a new nonce at its next generation: two joins that continue from the same
    snapshot give different ids, and each refuses the other's tokens.

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
        self._branches = [(0, secrets.token_hex(6))]  # (first generation, nonce in its ids)
        self._fork = False
        self._firsts = (0, 0)
        self._nexts = (0, 0)
        self._dead: list[_Dead] = []

    @property
    def token(self) -> str:
        """A text that names the current generation."""
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
            returned, whose rows are all still there. None cuts all anew. By default no chunk is.
        fanout : int, optional
            So many chunks at the end of a side that are of one size or smaller are cut anew as one. Then
            there are O(log rows) chunks, and a row is written O(log rows) times at most.
        history : int, optional
            How many generations back a token stays known; ``KEPT`` at most.

        Notes
        -----
        Cost: O(chunks alive). Bad arguments change nothing.
        """
        known = self._generation if since is ... else -1 if since is None else self._known(since)
        firsts, nexts = _positions(firsts), _positions(nexts)
        for side in (0, 1):
            if not (self._firsts[side] <= firsts[side] <= nexts[side] and self._nexts[side] <= nexts[side]):
                raise StateError(
                    f"rows {firsts[side]} to {nexts[side]} of side {side}, which had rows "
                    f"{self._firsts[side]} to {self._nexts[side]}; positions never go back"
                )
        generation = self._generation + 1
        branches = [*self._branches, (generation, secrets.token_hex(6))] if self._fork else [*self._branches]
        keep: list[Chunk] = []
        new: list[Chunk] = []
        for side, (first, after) in enumerate(zip(firsts, nexts, strict=True)):
            kept = [c for c in self.alive if c.side == side and c.stop > first and c.generation <= known]
            if fanout is not None:
                _drop_small(kept, first, after, fanout)
            keep += kept
            start = kept[-1].stop if kept else first
            if start < after:
                name = f"{'LR'[side]}{generation}-{start}-{branches[-1][1]}"
                new.append(Chunk(name, side, start, after, generation))
        oldest = generation - min(self.KEPT if history is None else history, self.KEPT)
        while len(branches) > 1 and branches[1][0] <= oldest:
            del branches[0]
        branches[0] = (max(branches[0][0], oldest), branches[0][1])
        dead = [entry for entry in self._dead if entry.died > oldest]
        dead += [_Dead(c.id, c.generation, generation) for c in self.alive if c not in keep]
        self.alive, self._dead = [chunk for chunk in self.alive if chunk in keep] + new, dead
        self._generation, self._branches, self._fork = generation, branches, False
        self._firsts, self._nexts = firsts, nexts
        return new

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
                raise StateError(f"token={token!r} is newer than the state this join continues from; {full}")
            known = min(self._generation - start, self.KEPT)
            if generation < self._generation - known:
                raise StateError(
                    f"token={token!r} is {self._generation - generation} snapshots old; dead chunks are "
                    f"known of the last {known}: {full}"
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
        """A log that continues from :meth:`to_json`: same ids, same token. Any fault is a StateError."""
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
        """Raise if no calls of :meth:`advance` can have led to this log."""
        _require(is_natural(self._generation), "the generation is not a number")
        starts = [start for start, _ in self._branches]
        _require(all(map(is_natural, starts)) and starts == sorted(set(starts)) and starts, "branches")
        _require(starts[-1] <= self._generation, "a branch begins in the future")
        _require(all(isinstance(n, str) and _NONCE.fullmatch(n) for _, n in self._branches), "a nonce")
        _require(len({nonce for _, nonce in self._branches}) == len(starts), "a nonce is there twice")
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
            _require(not starts or starts[0] <= first, f"the first rows of side {side} are not in any chunk")
        for entry in self._dead:
            _require(_ID.fullmatch(entry.id) and all(map(is_natural, entry[1:])), f"dead {entry.id!r}")
            _require(0 < entry.born < entry.died <= self._generation, f"the age of dead {entry.id!r}")
            _require(entry.died > self._generation - self.KEPT, f"dead {entry.id!r} is forgotten by now")
        ids = [chunk.id for chunk in self.alive] + [entry.id for entry in self._dead]
        _require(len(set(ids)) == len(ids), "a chunk is there twice")


def _drop_small(kept: list[Chunk], first: int, after: int, fanout: int) -> None:
    """Remove chunks at the end of a side that are to be cut anew together with the rows that follow them."""
    while True:
        start = kept[-1].stop if kept else first
        small = len(kept)
        while small and _magnitude(kept[small - 1].stop - max(first, kept[small - 1].start)) <= _magnitude(
            after - start
        ):
            small -= 1
        if start == after or len(kept) - small < fanout - 1:
            return
        del kept[small:]


def _magnitude(rows: int) -> int:
    """The order of magnitude of a number of rows, to the base 8."""
    return rows.bit_length() // 3


def _require(condition: object, what: str) -> None:
    if not condition:
        raise ValueError(what)


def _positions(pair: Sequence[int]) -> tuple[int, int]:
    _require(not any(isinstance(position, bool) for position in pair), "a position that is a flag")
    left, right = (operator.index(position) for position in pair)
    _require(is_natural(left) and is_natural(right), f"positions {left} and {right}")
    return left, right
