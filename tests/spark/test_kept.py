"""State of a group in Spark's store: parts of large chunks, dead chunks removed, what is missing found."""

import pytest

import slidejoin as sj

pytest.importorskip("pyspark")

from fault.spark_state import Died, Store

from slidejoin.spark import kept
from slidejoin.spark.kept import GroupState

KEY = 7
VERSIONS = pytest.mark.parametrize("old", [False, True], ids=["4.3", "4.0"])


def stored(store, old=False, dies=None):
    """The state of the group in a new task, and the task's handle."""
    handle = store.task(dies, old)
    handle.key = KEY
    return GroupState(handle), handle


def pushed(join, start, rows):
    ids = list(range(start, start + rows))
    join.push(left={"id": ids, "text": [f"text {i}" * 3 for i in ids]})
    join.push(right={"id": ids[:1], "text": ["right"]})


def some_join(window=1000):
    return sj.WindowJoin(sj.equal("id"), sj.rows(window))


def saved(store, join, head, old=False):
    state, handle = stored(store, old)
    new = join.snapshot_since(None if head is None else head.token)
    head = state.replace(head, new, '{"a": 1}', 12, 34)
    store.commit(handle)
    return head


@VERSIONS
@pytest.mark.parametrize("part", [1, 7, 100, 4096, 2**24])
def test_all_comes_back_whatever_the_size_of_parts(monkeypatch, part, old):
    monkeypatch.setattr(kept, "_PART", part)
    store, join = Store(), some_join()
    pushed(join, 0, 5 if part == 1 else 40)
    new = join.snapshot_since(None)
    state, handle = stored(store, old)
    assert state.read() is None
    head = state.replace(None, new, '{"a": "é"}', 12, 34)
    store.commit(handle)
    state, _ = stored(store, old)
    again = state.read()
    assert again == head
    assert (again.meaning, again.token, again.timer, again.expiry) == ('{"a": "é"}', new.token, 12, 34)
    assert type(again.head) is bytes
    assert state.chunks(again) == new.chunks
    assert again.size == len(new.head) + sum(map(len, new.chunks.values()))
    sizes = [len(value) for value in store.chunks(KEY).values()]
    assert max(sizes) <= part
    assert len(sizes) == sum(-(-len(data) // part) for data in new.chunks.values())
    sj.WindowJoin.restore(again.head, chunks=state.chunks(again)).check()


@pytest.mark.parametrize("exact", [0, -1, 1])
def test_a_chunk_as_large_as_a_part(monkeypatch, exact):
    join = some_join()
    pushed(join, 0, 10)
    new = join.snapshot_since(None)
    size = max(map(len, new.chunks.values()))
    monkeypatch.setattr(kept, "_PART", size + exact)
    store = Store()
    state, handle = stored(store)
    head = state.replace(None, new, "{}", 0, 0)
    store.commit(handle)
    assert stored(store)[0].chunks(head) == new.chunks
    assert len(store.chunks(KEY)) == (2 if exact >= 0 else 3)


@VERSIONS
def test_only_the_chunks_of_the_head_are_there(monkeypatch, old):
    """Rows expire and chunks are merged: all parts of the dead go, none of the others."""
    monkeypatch.setattr(kept, "_PART", 100)
    store, join, head = Store(), some_join(60), None
    for number in range(60):
        pushed(join, number * 7, 7)
        head = saved(store, join, head, old)
        names = {key.rpartition("/")[0] for key in store.chunks(KEY)}
        assert names == set(head.chunks)
        assert len(store.chunks(KEY)) == sum(-(-size // 100) for size in head.chunks.values())
        if number % 7 == 0:
            state, _ = stored(store, old)
            again = state.read()
            assert again == head
            join = sj.WindowJoin.restore(again.head, chunks=state.chunks(again))
            join.check()
            assert join.stats["stored_left"] == min(7 * (number + 1), 60)
    assert head.size < 40_000


def test_nothing_is_left_of_a_group_that_is_cleared():
    store, join = Store(), some_join()
    pushed(join, 0, 10)
    saved(store, join, None)
    state, handle = stored(store)
    state.clear()
    assert state.read() is None
    store.commit(handle)
    assert not store.groups


def test_a_mark_is_no_join():
    store = Store()
    state, handle = stored(store)
    state.mark('{"version": 1}')
    store.commit(handle)
    head = stored(store)[0].read()
    assert head.meaning == '{"version": 1}'
    assert not head.chunks


@pytest.mark.parametrize("which", ["first", "last"])
def test_a_part_that_is_missing(monkeypatch, which):
    monkeypatch.setattr(kept, "_PART", 50)
    store, join = Store(), some_join()
    pushed(join, 0, 10)
    saved(store, join, None)
    parts = store.groups[KEY].maps["chunks"]
    del parts[(min if which == "first" else max)(parts, key=lambda key: int(key[0].rpartition("/")[2]))]
    state, _ = stored(store)
    with pytest.raises(sj.StateError, match="missing in the checkpoint"):
        state.chunks(state.read())


def test_a_task_that_dies_at_any_step_changes_nothing(monkeypatch):
    """Spark keeps the state of the last commit; the next attempt goes on from there."""
    monkeypatch.setattr(kept, "_PART", 200)
    store, join = Store(), some_join(30)
    pushed(join, 0, 20)
    head = saved(store, join, None)
    before = store.chunks(KEY)
    deaths = 0
    for step in range(1, 100):
        state, handle = stored(store, dies=step)
        try:
            found = state.read()
            again = sj.WindowJoin.restore(found.head, chunks=state.chunks(found))
            pushed(again, 20, 20)
            state.replace(found, again.snapshot_since(found.token), "{}", 1, 2)
        except Died:
            deaths += 1
            assert store.chunks(KEY) == before
            state, _ = stored(store)
            assert state.read() == head
        else:
            break
    assert deaths == step - 1 > 10
    store.commit(handle)
    state, _ = stored(store)
    found = state.read()
    join = sj.WindowJoin.restore(found.head, chunks=state.chunks(found))
    join.check()
    assert join.stats["stored_left"] == 30
    assert not set(before) & set(store.chunks(KEY)) - {
        key for key in store.chunks(KEY) if key.rpartition("/")[0] in found.chunks
    }
