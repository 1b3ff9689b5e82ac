"""Order: the sequence of arrivals is the reference's, however sources interleave and batches are cut."""

import copy
import json
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin.errors import OrderError, UsageError
from slidejoin.order import Order
from slidejoin.reference import Arrival, ReadyOrder

KEYS = [(0, "a"), (0, "aa"), (0, "b"), (1, "a"), (1, "c")]
LEAST, MOST = -(2**63), 2**63 - 1
# Where time starts: the ends of int64 are times like any other.
STARTS = (0, 0, LEAST, MOST - 1000)


@dataclass
class Feed:
    """An Order and the reference, told the same; times of the Order are counted in units of 1 / scale."""

    strict: bool
    start: int = 0
    scale: int = 1
    sent: int = 0
    order: Order = field(init=False)
    reference: ReadyOrder = field(init=False)
    released: list = field(default_factory=list)

    def __post_init__(self):
        self.order = Order(self.strict)
        self.reference = ReadyOrder(strict=self.strict)

    def columns(self, times):
        nulls = np.array([time is None for time in times], bool)
        # What stands in a null's place must not matter.
        filled = [MOST if time is None else (time + self.start) * self.scale for time in times]
        return np.array(filled, np.int64), nulls if nulls.any() else None

    def push(self, key, times, commit=True):
        ids = list(range(self.sent, self.sent + len(times)))
        table = pa.table({"id": pa.array(ids, pa.int64()), "ts": pa.array(times, pa.int64())})
        before = self.seen()
        trial = copy.deepcopy(self.reference)
        wanted = []
        try:
            for id_, time in zip(ids, times, strict=True):
                wanted += trial.push(key[1], Arrival(key[0], id_, time))
        except ValueError:
            with pytest.raises((OrderError, UsageError)):
                self.order.push(*key, table, *self.columns(times))
            assert self.seen() == before
            return
        if not times and not self.order.is_open(*key):
            with pytest.raises(UsageError):
                self.order.push(*key, table, *self.columns(times))
            return
        ready = self.order.push(*key, table, *self.columns(times))
        assert self.seen() == before
        assert flat(ready) == [(arrival.side, arrival.key) for arrival in wanted]
        if commit:
            self.accept(trial, ready, wanted)
            self.sent += len(times)

    def call(self, what, key, commit=True):
        before = self.seen()
        trial = copy.deepcopy(self.reference)
        try:
            wanted = getattr(trial, what)(*key)
        except ValueError:
            with pytest.raises(UsageError):
                getattr(self.order, what)(*key)
            assert self.seen() == before
            return
        ready = getattr(self.order, what)(*key)
        if what == "add":
            self.reference = trial
            return
        assert self.seen() == before
        assert flat(ready) == [(arrival.side, arrival.key) for arrival in wanted]
        if commit:
            self.accept(trial, ready, wanted)

    def accept(self, trial, ready, wanted):
        self.order.commit(ready)
        self.reference = trial
        self.released += [arrival.key for arrival in wanted]
        assert self.order.waiting() == len(trial._waiting)

    def finish_all(self):
        wanted = []
        for info in self.order.sources():
            if info.is_open:
                wanted += self.reference.finish(info.side, info.name)
        ready = self.order.finish_all()
        assert flat(ready) == [(arrival.side, arrival.key) for arrival in wanted]
        self.order.commit(ready)
        self.released += [arrival.key for arrival in wanted]
        assert self.order.waiting() == 0
        assert not any(info.is_open for info in self.order.sources())

    def restore(self):
        state, tables = self.order.state()
        waiting = {}
        for key, table in tables.items():
            waiting[key] = (table, *self.columns(table["ts"].to_pylist()))
        self.order = Order.restore(json.loads(json.dumps(state)), waiting)
        assert self.seen() == (state, {key: table.to_pylist() for key, table in tables.items()})
        key = next(((info.side, info.name) for info in self.order.sources() if info.is_open), None)
        if key is not None:
            self.push(key, [])  # nothing is ready that was not before

    def rescale(self, factor):
        if self.start == 0 and self.scale < 1000:
            self.order.rescale(factor)
            self.scale *= factor

    def seen(self):
        state, tables = self.order.state()
        return state, {key: table.to_pylist() for key, table in tables.items()}


def flat(ready):
    rows = {side: iter(table["id"].to_pylist()) for side, table in ready.tables.items()}
    found = [(int(side), next(rows[side])) for side in ready.sides]
    assert all(next(left, None) is None for left in rows.values())
    return found


FEW = KEYS[0], KEYS[2], KEYS[3]  # sources that are open all the time would hold everything back

# Steps from one time of a source to the next: mostly forward, many ties, some nulls, seldom back.
STEPS = st.lists(st.sampled_from([0, 0, 0, 1, 1, 2, 5, None, None]), min_size=1, max_size=4)
PUSH = st.tuples(st.just("push"), st.sampled_from(FEW), STEPS, st.sampled_from([True, True, True, False]))
ACTIONS = st.one_of(
    PUSH,
    PUSH,
    st.tuples(st.just("push"), st.sampled_from(FEW), STEPS.map(lambda steps: [*steps, -1, 0]), st.just(True)),
    st.tuples(st.just("push"), st.sampled_from(FEW), st.just([]), st.just(True)),
    st.tuples(st.sampled_from(["catch up", "lag"]), st.sampled_from(FEW), STEPS, st.just(True)),
    st.tuples(st.sampled_from(["catch up", "lag"]), st.sampled_from(FEW), STEPS, st.just(True)),
    st.tuples(st.sampled_from(["add", "idle", "idle", "finish"]), st.sampled_from(KEYS), st.booleans()),
    st.tuples(st.just("idle"), st.sampled_from(FEW), st.just(True)),
    st.tuples(st.just("restore")),
    st.tuples(st.just("rescale"), st.integers(2, 3)),
)


@given(
    st.booleans(),
    st.sampled_from(STARTS),
    st.sets(st.sampled_from(FEW), min_size=1),
    st.lists(ACTIONS, min_size=8, max_size=40),
)
def test_equals_the_reference(strict, start, opened, actions):
    feed = Feed(strict, start)
    latest = dict.fromkeys(KEYS, 0)
    for key in opened:
        feed.call("add", key)
    for what, *rest in actions:
        if what in ("push", "catch up", "lag"):
            key, steps, commit = rest
            ahead = max(latest.values())
            time = {"push": latest[key], "catch up": ahead, "lag": ahead - 2}[what]
            times = []
            for step in steps:
                time = max(time + (step or 0), 0)
                times.append(None if step is None else time)
            sent = feed.sent
            feed.push(key, times, commit)
            if feed.sent > sent:
                latest[key] = time
        elif what in ("restore", "rescale"):
            getattr(feed, what)(*rest)
        else:
            feed.call(what, *rest)
    feed.finish_all()


@st.composite
def complete(draw):
    """Rows of each source, each row with its own number."""
    keys = draw(st.sets(st.sampled_from(KEYS), min_size=1))
    rows, number = {}, 0
    for key in sorted(keys):
        steps = draw(st.lists(st.sampled_from([0, 0, 1, 3, None]), max_size=30))
        times, time = [], draw(st.integers(0, 3))
        for step in steps:
            time += step or 0
            times.append((number, None if step is None else time))
            number += 1
        rows[key] = times
    return rows


def in_order(rows):
    """Sorted by hand: (has a time, time, side, name, place in the source)."""
    places = []
    for key, of_source in rows.items():
        latest = None
        for sequence, (number, time) in enumerate(of_source):
            latest = latest if time is None else time
            places.append(((latest is not None, latest or 0, key, sequence), number))
    return [number for _, number in sorted(places)]


@given(complete(), st.booleans(), st.sampled_from(STARTS), st.data())
def test_any_interleaving_and_any_batches_give_one_sequence(rows, strict, start, data):
    order = Order(strict)
    for key in data.draw(st.permutations(sorted(rows))):
        order.add(*key)
    left = {key: list(of_source) for key, of_source in rows.items()}
    found = []
    while left:
        key = data.draw(st.sampled_from(sorted(left)))
        size = data.draw(st.sampled_from([30, 9, 4, 2, 1, 0]))
        batch, left[key] = left[key][:size], left[key][size:]
        times = np.array([MOST if time is None else time + start for _, time in batch], np.int64)
        nulls = np.array([time is None for _, time in batch], bool)
        table = pa.table({"id": pa.array([number for number, _ in batch], pa.int64())})
        readies = [order.push(*key, table, times, nulls)]
        order.commit(readies[0])
        if not left[key] and not data.draw(st.booleans()):
            del left[key]
            readies.append(order.finish(*key))
            order.commit(readies[1])
        found += [number for ready in readies for _, number in flat(ready)]
    assert order.waiting() == 0
    assert found == in_order(rows)
