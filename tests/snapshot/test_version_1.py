"""States of format version 1, in which a row at the watermark was late and a promise was up to a time."""

import copy

import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin.snapshot import binary


def version_1(join, watermark, progress, promised, monkeypatch):
    """The snapshot that version 1 wrote of a join without promises, had it promised and seen these times."""
    head, chunks = binary.unbundle(binary.decode(join.snapshot()))
    document = binary.decode(head)
    meta = copy.deepcopy(document.meta)
    native = meta["engine"]["native"]
    native["watermark"] = watermark
    native["left"]["progress"], native["right"]["progress"] = progress
    meta["engine"] = {"native": native, "promised": promised}
    chunk_documents = {name: binary.decode(data) for name, data in chunks.items()}
    with monkeypatch.context() as patch:
        patch.setattr(binary, "VERSION", 1)
        old = {
            name: binary.encode("chunk", each.fingerprint, each.meta, each.parts)
            for name, each in chunk_documents.items()
        }
        meta["chunks"] = {name: binary.checksum(data, 1) for name, data in old.items()}
        head = binary.encode("head", document.fingerprint, meta, document.parts)
        return binary.bundle(document.fingerprint, head, old)


def at(unit, *times):
    return {"k": [1] * len(times), "ts": pa.array(times, pa.int64()).cast(pa.timestamp(unit))}


def numbers(*times):
    return {"k": [1] * len(times), "ts": list(times)}


def test_rows_moved_the_watermark(monkeypatch):
    """Rows at the old watermark were late and are gone; from now on the new rule holds."""
    join = sj.WindowJoin(sj.equal("k"), sj.interval(0, 0, time="ts", lateness=0))
    join.push(left=numbers(20))
    join.push(right=numbers(10))
    join = sj.WindowJoin.restore(version_1(join, 10, (20, 10), [None, None], monkeypatch))
    assert join.stats["watermark"] == 11
    assert (join.stats["stored_left"], join.stats["stored_right"]) == (1, 0)
    join.push(right=numbers(10, 11, 20))
    assert (join.stats["late_right"], join.stats["matches"]) == (1, 1)
    assert join.stats["watermark"] == 20  # left came to 20 by a row, which is not late if it is repeated
    assert join.push(left=numbers(20)).num_rows == 1


def test_promises_included_their_time(monkeypatch):
    join = sj.WindowJoin(sj.equal("k"), sj.interval(5, 5, time="ts"))
    join.push(left=numbers(20))
    join.push(right=numbers(30))
    data = version_1(join, 10, (18, 10), ["18", "10"], monkeypatch)
    for again in (data, sj.WindowJoin.restore(data).snapshot()):
        join = sj.WindowJoin.restore(again)
        assert join.stats["watermark"] == 11
        join.advance(100, "right")
        assert join.stats["watermark"] == 19


@pytest.mark.parametrize("known", [False, True])
def test_promises_finer_than_the_unit(known, monkeypatch):
    """What the side that is not known yet brings is late up to the promise, exactly."""
    join = sj.WindowJoin(sj.equal("k"), sj.interval("3ms", "3ms", time="ts"))
    join.push(left=at("ms", 60))
    if known:
        join.push(right=at("ms"))
    data = version_1(join, 51, (51, 51), ["51793000", "51793000"], monkeypatch)
    join = sj.WindowJoin.restore(data)
    if known:
        join.push(right=at("ms", 51, 52))
    else:
        join.push(right=at("us", 51_793, 51_794))
    assert (join.stats["late_right"], join.stats["rows_right"]) == (1, 1)


FAR = 250_000_000_000  # seconds: beyond what 64 bits of nanoseconds hold


@pytest.mark.parametrize("stored", [FAR, 60])
def test_far_times_of_a_side_that_is_not_known_yet(stored, monkeypatch):
    """Nothing asks for a finer unit than that of the rows."""
    join = sj.WindowJoin(sj.equal("k"), sj.interval("3s", "3s", time="ts", lateness="0s"))
    join.push(left=at("s", stored))
    join = sj.WindowJoin.restore(version_1(join, None, (stored, None), [None, None], monkeypatch))
    assert join.push(right=at("ms", 1000 * FAR)).num_rows == (stored == FAR)


def test_promises_beside_far_times(monkeypatch):
    """A promise is kept as exactly as the times of the rows allow."""
    join = sj.WindowJoin(sj.equal("k"), sj.interval("3s", "3s", time="ts"))
    join.push(left=at("s", FAR))
    promised = f"{FAR * 10**9}"
    join = sj.WindowJoin.restore(version_1(join, FAR, (FAR, FAR), [promised] * 2, monkeypatch))
    join.push(right=at("us", FAR * 10**6, FAR * 10**6 + 1))
    assert (join.stats["late_right"], join.stats["rows_right"], join.stats["matches"]) == (1, 1, 1)


@pytest.mark.parametrize("promised", [[None], ["x", None], ["1/0", None], ["1e300000", None]])
def test_promises_that_are_no_numbers(promised, monkeypatch):
    join = sj.WindowJoin(sj.equal("k"), sj.interval(5, 5, time="ts"))
    join.push(left=numbers(20))
    with pytest.raises(sj.StateError):
        sj.WindowJoin.restore(version_1(join, None, (None, None), promised, monkeypatch))


def test_windows_without_a_watermark(monkeypatch):
    for window in (sj.rows(3), sj.within(5, time="ts")):
        join = sj.WindowJoin(sj.equal("k"), window)
        join.push(left=numbers(20))
        join = sj.WindowJoin.restore(version_1(join, None, (None, None), [None, None], monkeypatch))
        assert join.push(right=numbers(21)).num_rows == 1
        assert join.stats["watermark"] is None
