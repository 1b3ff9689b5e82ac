"""What Spark's state store keeps of a group: a head, and chunks of rows that are written once.

The head is everything but the rows, with the names of its chunks; chunks above 16 MB are stored in parts.
Both are of the format of ``WindowJoin.snapshot_since``, so a checkpoint holds no code and no pickles of ours.
"""

import json
from typing import Any, NamedTuple

from slidejoin.errors import StateError
from slidejoin.snapshot.chunks import Increment

_HEAD = "meaning string, token string, timer bigint, expiry bigint, chunks string, head binary"
_PART = 2**24  # bytes of one value in the state store


class Kept(NamedTuple):
    """The head of a group.

    Times are those of Spark, in milliseconds: ``timer`` of the timer that will fire (0 for none), ``expiry``
    when the last row will have left the window.
    """

    meaning: str  # what join this is of: JSON of ``Recipe.meaning``
    token: str
    timer: int
    expiry: int
    chunks: dict[str, int]  # bytes of each chunk
    head: bytes

    @property
    def size(self) -> int:
        """Bytes of the whole state."""
        return sum(self.chunks.values()) + len(self.head)


class GroupState:
    """The state of the group that Spark has set as the current one. Each call is a round trip or several."""

    def __init__(self, handle: Any) -> None:
        self._heads = handle.getValueState("head", _HEAD)
        self._chunks = handle.getMapState("chunks", "id string", "data binary")

    def read(self) -> Kept | None:
        """The head, if the group has one."""
        row = self._heads.get()
        if row is None:
            return None
        meaning, token, timer, expiry, chunks, head = row
        return Kept(meaning, token, timer, expiry, json.loads(chunks), bytes(head))

    def chunks(self, kept: Kept) -> dict[str, bytes]:
        """All chunks of a head."""
        return {name: self._chunk(name, size) for name, size in kept.chunks.items()}

    def _chunk(self, name: str, size: int) -> bytes:
        parts = []
        for key in _keys(name, size):
            row = self._chunks.getValue(key)
            if row is None:
                raise StateError(f"part {key[0]} of a chunk of rows is missing in the checkpoint")
            parts.append(bytes(row[0]))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def replace(self, kept: Kept | None, new: Increment, meaning: str, timer: int, expiry: int) -> Kept:
        """Store what is new, and remove the chunks that are no longer needed."""
        before = {} if kept is None else kept.chunks
        for name in before.keys() - set(new.alive):
            for key in _keys(name, before[name]):
                self._chunks.removeKey(key)
        for name, data in new.chunks.items():
            for part, key in enumerate(_keys(name, len(data))):
                self._chunks.updateValue(key, (data[part * _PART : (part + 1) * _PART],))
        sizes = before | {name: len(data) for name, data in new.chunks.items()}
        written = Kept(meaning, new.token, timer, expiry, {name: sizes[name] for name in new.alive}, new.head)
        self._write(written)
        return written

    def mark(self, meaning: str) -> None:
        """Store what join this is of, and nothing else."""
        self._write(Kept(meaning, "", 0, 0, {}, b""))

    def clear(self) -> None:
        """Remove all of the group's state."""
        self._heads.clear()
        self._chunks.clear()

    def _write(self, kept: Kept) -> None:
        self._heads.update((*kept[:4], json.dumps(kept.chunks), kept.head))


def _keys(name: str, size: int) -> list[tuple[str]]:
    """The keys of a chunk's parts."""
    return [(f"{name}/{part}",) for part in range(-(-size // _PART))]
