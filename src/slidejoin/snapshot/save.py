"""Snapshots of a join: its state as documents of ``slidejoin.snapshot.binary``, and the way back.

A *head* has everything but the rows: the spec, the columns, counters and watermark, which rows have matched,
late rows that were not fetched, what waits in sources. *Chunks* have the rows, by side and position. A whole
snapshot is a head with one chunk a side; increments write new rows, and name the chunks that have the others.
"""

import mmap
import re
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slidejoin import _core
from slidejoin.atomic_file import write_file
from slidejoin.errors import CapacityError, Error, SchemaError, StateError, UsageError
from slidejoin.index import check_index
from slidejoin.keys import BoundTime
from slidejoin.keys.extract import SIDES
from slidejoin.keys.types import NANOSECONDS
from slidejoin.live import LiveJoin
from slidejoin.native import scaled_state
from slidejoin.physical_streams import PhysicalStreams
from slidejoin.result import RowStore, result_table
from slidejoin.snapshot import binary
from slidejoin.snapshot.binary import Data, Document, is_natural
from slidejoin.snapshot.chunks import ChunkLog, Increment, check_chunks
from slidejoin.snapshot.parts import bits_part, read_bits, read_table, table_part
from slidejoin.spec import JoinSpec

_WAITING = "waiting "
_PROMISE = re.compile(r"-?[0-9]{1,40}(/[0-9]{1,40})?", re.ASCII)
_AT_ONCE = 2**16  # rows that are read back at once into files
FANOUT = 8  # chunks of one size before they become one


class SnapshotWriter:
    """Writes the snapshots of a join, and remembers which rows are in which chunk."""

    def __init__(
        self, live: LiveJoin, log: ChunkLog | None = None, sums: dict[str, int] | None = None
    ) -> None:
        self._live = live
        self._log = log or ChunkLog()
        self._sums = sums or {}  # checksum of each chunk alive

    def whole(
        self, sources: PhysicalStreams | None, path: str | PathLike[str] | None, note: str | None
    ) -> bytes:
        """All in one document, also written to a file if a path is given."""
        chunks = {
            SIDES[side]: _chunk(self._live, side, first, after)
            for side, (first, after) in enumerate(self._live.positions)
            if first < after
        }
        head = _head(self._live, sources, None, _checksums(chunks), note)
        data = binary.bundle(self._live.spec.fingerprint, head, chunks)
        if path is not None:
            write_file(path, data)
        return data

    def since(
        self,
        sources: PhysicalStreams | None,
        token: str | None,
        note: str | None,
        fanout: int = FANOUT,
        history: int | None = None,
    ) -> Increment:
        """What is new since a token."""
        firsts, nexts = zip(*self._live.positions, strict=True)
        log = copy(self._log)  # so that an interrupt leaves the old one or the new one
        new = log.advance(firsts, nexts, since=token, fanout=fanout, history=history)
        chunks = {chunk.id: _chunk(self._live, chunk.side, chunk.start, chunk.stop) for chunk in new}
        _, dead = log.since(token)
        known = self._sums | _checksums(chunks)
        sums = {chunk.id: known[chunk.id] for chunk in log.alive}
        head = _head(self._live, sources, log, sums, note)
        increment = Increment(log.token, head, chunks, tuple(dead), tuple(sums))
        self._log, self._sums = log, sums
        return increment


class Restored(NamedTuple):
    """A join that was read from a snapshot."""

    live: LiveJoin
    sources: PhysicalStreams | None
    writer: SnapshotWriter
    note: str | None


def restored(
    data: Data | str | PathLike[str],
    chunks: Mapping[str, Data] | None,
    index: str | None,
    spill: _core.NativeSpill | None = None,
) -> Restored:
    """The join of a snapshot, its sources, and what writes its further snapshots.

    With files for the rows, a snapshot is mapped rather than read.
    """
    if isinstance(data, Increment):
        raise UsageError("data is an Increment; use restore(increment.head, chunks=...) with all chunks kept")
    if chunks is not None and not isinstance(chunks, Mapping):
        raise UsageError(f"chunks is a {type(chunks).__name__}; expected a mapping of ids to bytes")
    if index is not None:
        check_index(index)
    for name, chunk in (chunks or {}).items():
        if not _has_bytes(chunk):
            raise UsageError(f"chunk {name!r} is a {type(chunk).__name__}; expected its bytes")
    try:
        if isinstance(data, str | PathLike):
            data = Path(data).read_bytes() if spill is None else _mapped(Path(data))
        document = binary.decode(data)
    except (TypeError, ValueError) as error:
        raise UsageError(f"data is a {type(data).__name__} ({error}); expected bytes or a path") from None
    found: Mapping[str, Data]
    if document.kind == "whole" and chunks is None:
        head, found = binary.unbundle(document)
        document = binary.decode(head, "head")
    elif document.kind == "head" and chunks is not None:
        found = chunks
    else:
        mend = {
            "whole": "this is a whole snapshot, leave chunks= out",
            "head": "this is the head of an increment; give its chunks, restore(head, chunks=...)",
            "chunk": "this is a chunk of an increment; give the head, and this one in chunks=",
        }
        raise StateError(mend[document.kind])
    try:
        return _read(document, found, index, spill)
    except (StateError, CapacityError):
        raise
    except (
        Error, KeyError, TypeError, ValueError, IndexError, ArithmeticError, AssertionError,
        RuntimeError,  # the binding's, for a value that does not fit
    ) as error:  # fmt: skip
        raise StateError(f"the snapshot contradicts itself: {error!r}") from error


# --- writing ---


def _head(
    live: LiveJoin,
    sources: PhysicalStreams | None,
    log: ChunkLog | None,
    sums: dict[str, int],
    note: str | None,
) -> bytes:
    parts: dict[str, Any] = {}
    for i, name in enumerate(SIDES):
        schema, store = live.sides[i].schema, live.stores[i]
        if schema is not None:
            parts[f"{name} columns"] = table_part(schema.empty_table())
        if store is not None and live.outcome.uses(i):
            parts[f"{name} matched"] = bits_part(live.outcome.flags(i).astype(bool))
        if live.waiting.late[i]:
            parts[f"{name} late"] = table_part(pa.concat_tables(live.waiting.late[i]))
    if live.waiting.held:
        parts["held"] = table_part(pa.concat_tables(live.waiting.held))
    if live.owed:  # an interrupt kept them from being returned
        parts["owed"] = table_part(pa.concat_tables(live.owed))
    meta: dict[str, Any] = {
        "spec": live.spec.to_json(),
        "engine": None if live.engine is None else live.engine.state(),
        "stored": [store is not None for store in live.stores],
        "held_side": live.waiting.held_side,
        "unequal": 0 if live.engine is None else live.engine.native.rejected,
        "chunks": sums,
        "note": note,
        "log": None if log is None else log.to_json(),
        "sources": None,
    }
    if live.spec.columns is not None:
        meta["names"] = [None if side.names is None else list(side.names) for side in live.sides]
    if sources is not None:
        order, waiting = sources.order.state()
        meta["sources"] = {"order": order, "columns": sources.columns}
        for (side, name), table in waiting.items():
            parts[f"{_WAITING}{SIDES[side]} {name}"] = table_part(table)
    return binary.encode("head", live.spec.fingerprint, meta, parts)


def _chunk(live: LiveJoin, side: int, start: int, stop: int) -> bytes:
    """Rows of a side, and which of them are probe-only."""
    store = live.stores[side]
    assert store is not None
    rows = result_table(store.schema, store.take(np.arange(start, stop)))
    parts = {"rows": table_part(rows), "unseen": bits_part(live.unseen(side, start, stop))}
    meta = {"side": side, "start": start, "stop": stop}
    return binary.encode("chunk", live.spec.fingerprint, meta, parts)


def _checksums(chunks: dict[str, bytes]) -> dict[str, int]:
    return {name: binary.checksum(chunk) for name, chunk in chunks.items()}


# --- reading ---


def _mapped(path: Path) -> Data:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if path.stat().st_size else b""


def _read(
    head: Document, found: Mapping[str, Data], index: str | None, spill: _core.NativeSpill | None
) -> Restored:
    meta = head.meta
    spec = JoinSpec.from_json(meta["spec"])
    if spec.fingerprint != head.fingerprint:
        raise StateError("the snapshot is of another join than it says: its fingerprint differs")
    live = LiveJoin(spec if index is None else replace(spec, index=index), spill)
    for i, name in enumerate(SIDES):
        if (part := head.parts.get(f"{name} columns")) is not None:
            live.sides[i].fix(read_table(part, rows=0).schema)
            if spec.columns is not None:
                live.sides[i].names = _names(meta["names"][i], live.sides[i].schema)
    side = _count(meta["held_side"])
    if "held" in head.parts:
        held = read_table(head.parts["held"])
        if side > 1 or not held.schema.equals(live.sides[side].schema):
            raise StateError("the snapshot contradicts itself: rows are held back that have no place")
        live.waiting = live.waiting._replace(held=(held,), held_side=side)
    if "owed" in head.parts:
        owed = read_table(head.parts["owed"])
        if live.output is None or not owed.schema.equals(live.output):
            raise StateError("the snapshot contradicts itself: results with other columns")
        live.owed = (owed,)
    sums = meta["chunks"]
    chunks = check_chunks(sums, found)
    if stranger := [name for name in chunks if chunks[name].fingerprint != spec.fingerprint]:
        raise StateError(f"chunk {stranger[0]!r} belongs to another join than the head")
    if meta["engine"] is not None:
        _load(live, head, list(chunks.values()))
    elif chunks or any(meta["stored"]):
        raise StateError("the snapshot contradicts itself: rows without a join of them")
    sources = None
    if meta["sources"] is not None:
        sources = _sources(live, head)
    log = None if meta["log"] is None else ChunkLog.from_json(meta["log"])
    if log is not None and {chunk.id for chunk in log.alive} != set(sums):
        raise StateError("the head names other chunks than its log")
    note = meta.get("note")
    if note is not None and not isinstance(note, str):
        raise StateError(f"the snapshot contradicts itself: its note is {note!r}")
    return Restored(live, sources, SnapshotWriter(live, log, dict(sums) if log else None), note)


def _names(names: Any, schema: pa.Schema) -> tuple[str, ...]:
    """All names of a side, also those of columns that were not stored."""
    if (
        not isinstance(names, list)
        or not all(isinstance(name, str) for name in names)
        or len(set(names)) < len(names)
        or not set(schema.names) <= set(names)
    ):
        raise StateError(f"the snapshot contradicts itself: {schema.names} are stored of {names!r}")
    return tuple(names)


def _has_bytes(data: Data) -> bool:
    try:
        binary.as_bytes(data)
    except (TypeError, ValueError):
        return False
    return True


def _load(live: LiveJoin, head: Document, chunks: list[Document]) -> None:
    """Take up the rows and the engine's state."""
    saved = head.meta["engine"]
    rejected = _count(head.meta["unequal"])
    if rejected > _count(saved["native"]["matches"]):
        raise StateError("the snapshot contradicts itself: more rejected candidates than candidates")
    unseen: list[NDArray[np.bool_]] = []
    for i, name in enumerate(SIDES):
        native = saved["native"][name]
        first, after = _count(native["first"]), _count(native["next"])
        flags = np.zeros(0, bool)
        schema = live.sides[i].schema
        if head.meta["stored"][i]:
            store = live.stores[i] = RowStore(schema, first, live.crew, live.spill)
            flags = _append(store, sorted((c for c in chunks if c.meta["side"] == i), key=_start), after)
            if live.outcome.uses(i):
                matched = read_bits(head.parts[f"{name} matched"], after - first)
                live.outcome.load(i, first, matched.view(np.uint8))
        elif first != after:
            raise StateError(f"rows of {name} without columns")
        if (part := head.parts.get(f"{name} late")) is not None:
            late = read_table(part)
            if not late.schema.equals(schema):
                raise StateError(f"late rows of {name} have other columns")
            kept = live.waiting.late
            live.waiting = live.waiting._replace(late=((late,), kept[1]) if i == 0 else (kept[0], (late,)))
        unseen.append(flags)
    if head.version == 1:
        saved = _from_version_1(live, saved)
    engine = live.engine_for({}, saved["unit"])
    if engine.state()["unit"] != saved["unit"]:
        raise StateError(f"the snapshot contradicts itself: its times are in {saved['unit']!r}")
    engine.load(saved["native"], live.stores, unseen)
    engine.native.rejected = rejected
    live.engine = engine


def _from_version_1(live: LiveJoin, saved: dict[str, Any]) -> dict[str, Any]:
    """The state of an engine as version 1 wrote it, in which a row at the watermark was late.

    Its promises were exact and could be finer than the unit of its times, if a side was not known yet.
    """
    promises = saved["promised"]
    if len(promises) != 2 or not all(p is None or _PROMISE.fullmatch(p) for p in promises):
        raise StateError(f"the snapshot contradicts itself: promises {promises!r}")
    before = live.engine_for({}).bound.time
    if before is None:
        return {"native": saved["native"], "unit": None}
    exact = saved["native"]["watermark"] is not None or promises != [None, None]
    now = _finest(live, before) if exact and before.unit and not live.complete else before
    tick = NANOSECONDS[now.unit] if now.unit else 1
    native = scaled_state(saved["native"], now.ticks_in(before))
    if native["watermark"] is not None:
        native["watermark"] += 1
    for name, promise in zip(SIDES, promises, strict=True):
        if promise is not None:  # rows alone move the progress as before
            native[name]["progress"] = max(native[name]["progress"], Fraction(promise) // tick + 1)
    active = [native[name]["progress"] for name in SIDES if not native[name]["idle"]]
    if not live.complete and active and None not in active:
        native["watermark"] = max(native["watermark"], min(active))
    return {"native": native, "unit": now.unit}


def _finest(live: LiveJoin, present: BoundTime) -> BoundTime:
    """The timestamps in the finest unit that holds those of all rows. Cost: O(rows)."""
    for unit in ("ns", "us", "ms"):
        engine = live.engine_for({}, unit)
        try:
            for side, store in enumerate(live.stores):
                if store is not None:
                    engine.read(side, {side: store.table()})
        except SchemaError:
            continue
        assert engine.bound.time is not None
        return engine.bound.time
    return present


def _append(store: RowStore, chunks: list[Document], after: int) -> NDArray[np.bool_]:
    """Store the rows of a side from its chunks, without gaps; the flags of those that nobody may meet."""
    unseen = [np.zeros(0, bool)]
    for chunk in chunks:
        start, stop = _count(chunk.meta["start"]), _count(chunk.meta["stop"])
        rows = read_table(chunk.parts["rows"], rows=stop - start)
        flags = read_bits(chunk.parts["unseen"], stop - start)
        gone = store.first - start if start < store.first else 0
        if start + gone != store.next or gone > stop - start:
            raise StateError(f"rows {start} to {stop} do not follow row {store.next}")
        kept = rows.slice(gone)
        step = _AT_ONCE if store.spills else max(len(kept), 1)
        for begin in range(0, len(kept), step):
            store.append(kept.slice(begin, step))
        unseen.append(flags[gone:])
    if store.next != after:
        raise StateError(f"rows end at {store.next}, expected {after}: chunks are missing")
    return np.concatenate(unseen)


def _sources(live: LiveJoin, head: Document) -> PhysicalStreams:
    meta = head.meta["sources"]
    sources = PhysicalStreams(live)
    sources.columns = list(meta["columns"])
    times, columns = live.spec.time, sources.columns
    if len(columns) != 2 or not all(
        name is None or (isinstance(name, str) and (times is None or name == times[i]))
        for i, name in enumerate(columns)
    ):
        raise StateError(f"the snapshot contradicts itself: timestamps of sources in {columns!r}")
    waiting = {}
    for name, part in head.parts.items():
        if name.startswith(_WAITING):
            side, _, source = name.removeprefix(_WAITING).partition(" ")
            table = read_table(part)
            i = SIDES.index(side)
            if not table.schema.equals(live.sides[i].schema):
                raise StateError(f"rows that wait in source {source!r} have other columns than {side}")
            waiting[i, source] = table
    sources.restore(meta["order"], waiting)
    return sources


def _start(chunk: Document) -> int:
    return _count(chunk.meta["start"])


def _count(value: Any) -> int:
    if not is_natural(value):
        raise StateError(f"the snapshot contradicts itself: {value!r} where a count is expected")
    return int(value)
