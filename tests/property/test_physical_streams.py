"""Sources of a join against the reference: results do not depend on interleaving or batches."""

import copy
import itertools
import os
from dataclasses import dataclass, field, fields
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from window_cases import HOWS, ONLY, SIDES, TIMES, Model, Row, Spec, counters, id_pairs, specs, values_of

import slidejoin as sj
from slidejoin import reference
from slidejoin.reference import Arrival, ReadyOrder
from slidejoin.window import Rows

KEYS = [(0, "a"), (0, "aa"), (0, "b"), (1, "a"), (1, "c d")]
FEW = KEYS[0], KEYS[2], KEYS[3]  # sources that are open all the time would hold everything back
KINDS = ("int8", "string", "float64", "int8, int32", "texts", "dictionary")
IDLE_AFTER = 1000
LONG = os.environ.get("SLIDEJOIN_TESTS") == "long"
EFFORT = settings(max_examples=settings().max_examples // (1 if LONG else 2))


@dataclass(frozen=True)
class TimedSpec(Spec):
    """Windows of rows have timestamps too: what sources are sorted by."""

    @property
    def timed(self):
        return True

    def time_of(self, side):
        return None if not isinstance(self.window, reference.Rows) else self.names(side)[len(self.on)]

    @property
    def unit(self):
        """What both sides can say, in the model's unit."""
        kind = TIMES[self.time]
        return max(kind.per_value(0), kind.per_value(1))


def timed(**options):
    options = {"kinds": KINDS, "self_joins": False, "hows": HOWS, "most": 2, **options}
    return specs(**options).map(
        lambda spec: TimedSpec(**{part.name: getattr(spec, part.name) for part in fields(spec)})
    )


@dataclass
class Feed:
    """A join with sources, and the reference told the same."""

    spec: TimedSpec
    known: list[bool]
    sent: int = 0
    wall: int = 10**9
    owed: list[Any] = field(default_factory=list)

    def __post_init__(self):
        self.join = self.spec.join(known=all(self.known))
        self.order = ReadyOrder(strict=not isinstance(self.spec.window, reference.Interval))
        self.model = Model(self.spec)
        self.handles = {}
        self.tell_the_time()

    def tell_the_time(self):
        self.join._clock = lambda: self.wall
        self.join._last_seen = [self.wall] * 2

    # --- what happens to sources ---

    def open(self, key):
        if key in self.order._streams:
            if self.order._streams[key].finished:
                self.refused(sj.UsageError, "finished", lambda: self.source(key))
            else:
                self.source(key)  # the same one once more
            return
        self.order.add(*key)
        self.handles[key] = self.source(key)
        assert self.handles[key].is_open

    def source(self, key):
        return self.join.source(SIDES[key[0]], key[1], time=self.spec.time_of(key[0]))

    def push(self, key, rows):
        """Deliver rows, unless the reference refuses one: then nothing of them, and nothing has changed."""
        if key not in self.handles:
            return
        ids = list(range(self.sent, self.sent + len(rows)))
        table = self.spec.table(key[0], rows, ids)
        order, ready = copy.deepcopy(self.order), []
        try:
            order._open(*key)
            for row, number in zip(rows, ids, strict=True):
                ready += order.push(key[1], Arrival(key[0], (row, number), row.ts))
        except ValueError:
            self.refused((sj.OrderError, sj.UsageError), ".", lambda: self.handles[key].push(table))
            return
        self.sent += len(rows)
        result = self.handles[key].push(table)
        self.known[key[0]] = True
        self.order = order
        self.agree(result, self.joined(ready))

    def end(self, what, key):
        """Finish a source, or declare it idle."""
        if key not in self.handles:
            return
        order = copy.deepcopy(self.order)
        try:
            ready = getattr(order, what)(*key)
        except ValueError:
            self.refused(sj.UsageError, "is finished", getattr(self.handles[key], what))
            return
        result = getattr(self.handles[key], what)()
        self.order = order
        self.agree(result, self.joined(ready))
        assert self.handles[key].is_open == (what == "idle")

    def advance(self, to, side):
        if not isinstance(self.spec.window, reference.Interval) or not any(self.known):
            return
        sides = (0, 1) if side is None else (side,)
        name = None if side is None else SIDES[side]
        point = self.spec.point(to)
        waiting = [(place, arrival) for place, arrival in self.order._waiting if arrival.side in sides]
        if any(place[0] < to for place, _ in waiting):
            self.refused(sj.UsageError, "would become late", lambda: self.join.advance(point, name))
            return
        self.agree(self.join.advance(point, name), [self.model.advance(to, side)])

    def restore(self, index, by_parts):
        if by_parts:
            new = self.join.snapshot_since()
            self.join = sj.WindowJoin.restore(new.head, chunks=new.chunks, index=index)
        else:
            self.join = sj.WindowJoin.restore(self.join.snapshot(), index=index)
        self.tell_the_time()
        for key in self.handles:
            if not self.order._streams[key].finished:
                self.handles[key] = self.source(key)
            else:
                self.handles[key] = self.handles[key].__class__(self.join, *key)

    def finish(self):
        ready = []
        for key, stream in sorted(self.order._streams.items()):
            if not stream.finished:
                ready += self.order.finish(*key)
        chunks = self.joined(ready)
        stats = self.model.counters
        self.agree(self.join.finish(), [*chunks, self.model.finish()], at_the_end=True)
        return stats

    # --- what is compared ---

    def joined(self, ready):
        return [chunk for arrival in ready for chunk in self.model.push(*([part] for part in arrival.key))]

    def agree(self, result, chunks, *, at_the_end=False):
        self.owed += chunks
        wanted = self.owed if self.has_columns() or at_the_end else []
        found = id_pairs(self.spec, result)
        assert reference.agrees(found, wanted, self.spec.order, self.spec.how), (found, wanted)
        if wanted:
            self.owed = []
        assert counters(self.spec, self.join.stats) == self.model.counters
        self.join.check()

    def has_columns(self):
        return self.known[ONLY[self.spec.how]] if self.spec.how in ONLY else all(self.known)

    def refused(self, error, message, call):
        before = self.join.snapshot()
        with pytest.raises(error, match=message):
            call()
        assert self.join.snapshot() == before


# --- the same as the reference, whatever happens ---


def rows_of(spec, side, min_size=0, max_size=4):
    """Keys of a side and steps of time: mostly forward, many ties, some nulls."""
    keys = st.tuples(*(values_of(condition.columns, side) for condition in spec.on))
    steps = st.sampled_from([0, 0, 0, 1, 1, 2, 5, None])
    return st.lists(st.tuples(keys, steps), min_size=min_size, max_size=max_size)


class Times:
    """Where each source stands, to draw what it brings next."""

    def __init__(self, spec):
        self.spec = spec
        self.latest = dict.fromkeys(KEYS, 0)

    def rows(self, key, drawn, start):
        made, now = [], start
        for parts, step in drawn:
            now = max(now + (step or 0), 0)
            made.append(Row(key[0], parts, None if step is None else now * self.spec.unit))
        return made, now


def perform(feed, times, data):
    """One thing that happens."""
    names = ["push", "push", "push", "catch up", "catch up", "lag", "back", "open", "idle", "finish"]
    what = data.draw(st.sampled_from([*names, "restore", "advance", "empty", "direct"]))
    key = data.draw(st.sampled_from(FEW if what not in ("open", "finish") else KEYS))
    if what in ("push", "catch up", "lag", "back"):
        ahead = max(times.latest.values())
        start = {"push": times.latest[key], "catch up": ahead, "lag": ahead - 2, "back": ahead}[what]
        rows, now = times.rows(key, data.draw(rows_of(feed.spec, key[0], 1)), start)
        if what == "back":  # disorder at the end of what was right until there
            rows.append(Row(key[0], rows[-1].key, max(now - 1, 0) * feed.spec.unit))
        sent = feed.sent
        feed.push(key, rows)
        if feed.sent > sent:
            times.latest[key] = now
    elif what == "empty":
        feed.push(key, [])
    elif what == "open":
        feed.open(key)
    elif what == "restore":
        index = data.draw(st.sampled_from([None, "b-tree", "nested-loop"]))
        feed.restore(index, data.draw(st.booleans()))
    elif what == "advance":
        to = max(max(times.latest.values()) + data.draw(st.integers(-6, 3)), 0)
        feed.advance(to * feed.spec.unit, data.draw(st.sampled_from([None, 0, 1])))
    elif what == "direct":
        table = feed.spec.table(0, [], [])
        feed.refused(sj.UsageError, "has sources", lambda: feed.join.push(left=table))
    else:
        feed.end(what, key)


@EFFORT
@given(timed(), st.booleans(), st.sets(st.sampled_from(FEW), min_size=1), st.data())
def test_equals_the_reference(spec, known, opened, data):
    feed, times = Feed(spec, [known, known]), Times(spec)
    for key in sorted(opened):
        feed.open(key)
    for _ in range(data.draw(st.integers(5, 25))):
        perform(feed, times, data)
    feed.finish()
    with pytest.raises(sj.UsageError, match="finished"):
        feed.join.finish()


# --- interleavings and batches ---


@st.composite
def inputs(draw, spec):
    """All rows of some sources, each with its own number."""
    keys = draw(st.sets(st.sampled_from(KEYS), min_size=1))
    rows, number, times = {}, 0, Times(spec)
    for key in sorted(keys):
        start = draw(st.integers(0, 3))
        made, _ = times.rows(key, draw(rows_of(spec, key[0], max_size=12)), start)
        rows[key] = list(zip(made, itertools.count(number), strict=False))
        number += len(made)
    return rows


def in_order(rows):
    """Sorted by hand: (has a time, time, side, name, place in the source)."""
    places = []
    for key, of_source in rows.items():
        latest = None
        for sequence, (row, number) in enumerate(of_source):
            latest = latest if row.ts is None else row.ts
            places.append(((latest is not None, latest or 0, key, sequence), row, number))
    return [(row, number) for _, row, number in sorted(places, key=lambda place: place[0])]


def run_sources(spec, rows, data, *, restarts):
    """The results of one interleaving, in the order in which they came."""
    join, found = spec.join(known=True), []

    def handle(key):
        return join.source(SIDES[key[0]], key[1], time=spec.time_of(key[0]))

    left = {key: list(of_source) for key, of_source in rows.items()}
    for key in data.draw(st.permutations(sorted(left))):
        handle(key)
    while left:
        key = data.draw(st.sampled_from(sorted(left)))
        size = data.draw(st.sampled_from([30, 9, 4, 2, 1, 0]))
        batch, left[key] = left[key][:size], left[key][size:]
        table = spec.table(key[0], [row for row, _ in batch], [number for _, number in batch])
        found += id_pairs(spec, handle(key).push(table))
        if not left[key]:
            del left[key]
            if data.draw(st.booleans()):
                found += id_pairs(spec, handle(key).finish())
        if restarts and data.draw(st.integers(0, 3)) == 0:
            join = sj.WindowJoin.restore(join.snapshot())
    stats = join.stats
    found += id_pairs(spec, join.finish())
    stats_at_end = counters(spec, join.stats)
    assert stats["rows_left"] <= stats_at_end["rows_left"]
    return found, stats_at_end


@EFFORT
@given(timed(), st.data())
def test_interleavings_batches_and_restarts_never_matter(spec, data):
    spec = TimedSpec(**{**vars(spec), "order": "full"})
    rows = data.draw(inputs(spec))
    merged = in_order(rows)
    plain, model = spec.join(known=True), Model(spec)
    wanted = [chunk for row, number in merged for chunk in model.push([row], [number])]
    wanted.append(model.finish())
    direct = []
    for row, number in merged:
        direct += id_pairs(spec, plain.push(**{SIDES[row.side]: spec.table(row.side, [row], [number])}))
    direct += id_pairs(spec, plain.finish())
    assert direct == [result for chunk in wanted for result in chunk]
    for restarts in (False, True):
        found, stats = run_sources(spec, rows, data, restarts=restarts)
        assert found == direct
        assert stats == counters(spec, plain.stats) == model.counters


# --- silence in processing time ---


class Silence:
    """Sources a and b of left, c of right, equal keys within ±10, and a clock of nanoseconds."""

    def __init__(self, lateness=0):
        window = sj.interval(
            10, 10, time="ts", lateness=lateness, late="return", idle_after=f"{IDLE_AFTER}ns"
        )
        self.wall = 10**9
        self.take_up(sj.WindowJoin(sj.equal("k"), window, order="full"))

    def take_up(self, join):
        self.join = join
        join._clock = lambda: self.wall
        join._last_seen = [self.wall] * 2
        self.a, self.b = (join.source("left", name) for name in "ab")
        self.c = join.source("right", "c")

    def idle(self):
        """The names of the sources that are idle."""
        lines = str(self.join.explain()).splitlines()
        return [line.split("'")[1] for line in lines if line.startswith("source") and ": idle" in line]


def times(*ts):
    return {"k": [1] * len(ts), "ts": list(ts)}


def test_a_silent_source_holds_back_until_idle_after():
    feed = Silence()
    feed.b.push(times(1))
    feed.c.push(times(1))
    assert feed.a.push(times(1)).num_rows == 0  # a may bring another 1, which sorts before b's and c's
    feed.wall += IDLE_AFTER - 1
    assert feed.a.push(times(20)).num_rows == 0  # and b now
    assert feed.idle() == []
    feed.wall += 2
    assert feed.a.push(times(21)).num_rows == 2  # b and c are silent since more than idle_after
    assert feed.idle() == ["b", "c"]


def test_a_source_that_wakes_holds_back_again():
    feed = Silence(lateness=100)
    for source in (feed.a, feed.b, feed.c):
        source.push(times(1))
    feed.wall += 2 * IDLE_AFTER
    feed.a.push(times(20))
    feed.c.push(times(20))
    assert feed.idle() == ["b"]
    assert feed.join.stats["rows_left"] == 3
    feed.b.push(times(15))
    assert feed.join.stats["rows_left"] == 4  # behind a's 20: joined at once
    assert feed.idle() == []
    assert feed.a.push(times(21)).num_rows == 0
    assert feed.b.push(times(30)).num_rows == 2  # c's 20 with 15 and 20


def test_a_source_that_speaks_after_a_long_silence_was_never_idle():
    feed = Silence()
    for source in (feed.a, feed.b, feed.c):
        source.push(times(1))
    feed.wall += IDLE_AFTER - 1
    feed.b.push(times(5))
    feed.c.push(times(5))
    feed.wall += 1
    feed.a.push(times(3))
    assert feed.idle() == []
    assert (feed.join.stats["rows_left"], feed.join.stats["rows_right"]) == (3, 1)  # both 5 wait
    assert feed.join.stats["late_left"] == 0


def test_an_empty_batch_is_no_sign_of_life():
    feed = Silence()
    for source in (feed.a, feed.b, feed.c):
        source.push(times(1))
    feed.wall += IDLE_AFTER + 1
    feed.b.push({"k": [], "ts": []})
    feed.a.push(times(2))
    assert feed.idle() == ["b", "c"]


def test_a_source_is_silent_since_it_was_opened():
    feed = Silence()
    feed.a.push(times(1))
    feed.wall += 1
    feed.a.push(times(2))
    assert feed.idle() == []


def test_silence_is_counted_anew_after_a_restore():
    feed = Silence()
    for source in (feed.a, feed.b, feed.c):
        source.push(times(1))
    feed.take_up(sj.WindowJoin.restore(feed.join.snapshot()))
    for ts in (2, 3):
        feed.a.push(times(ts))
        feed.wall += 1
    assert feed.idle() == []


def test_a_refused_push_loses_nothing_that_silence_released():
    feed = Silence()
    for source in (feed.c, feed.b, feed.a):
        source.push(times(1))
    feed.wall += IDLE_AFTER + 1
    before = feed.join.snapshot()
    with pytest.raises(sj.OrderError):
        feed.a.push(times(0))
    assert feed.join.snapshot() == before
    assert feed.a.push(times(2)).num_rows == 3  # both 1 and the 2 with c's 1


def test_rows_that_wait_do_not_become_late_by_the_silence_of_their_side():
    feed = Silence()
    feed.a.push(times(1))
    feed.b.push(times(1))
    feed.wall += IDLE_AFTER
    feed.c.push(times(50))  # waits for a and b
    feed.a.push(times(50))
    feed.b.push(times(50))  # a's 50 is joined now, and c's must still wait
    feed.join.finish()
    assert feed.join.stats["late_right"] == 0


# --- what is refused changes nothing ---


def opened(window, how="full", **options):
    """A join with rows that wait: left a up to 5, right c up to 3."""
    join = sj.WindowJoin(sj.band("k", within=1), window, how=how)
    time = {"time": "ts"} if isinstance(window, Rows) else {}
    a, c = join.source("left", "a", **time), join.source("right", "c", **time)
    a.push(typed([1, 5], **options))
    c.push(typed([3]))
    return join, a, c


def typed(ts, k=None, type_=None):
    seconds = pa.array(ts, pa.int64()).cast(pa.timestamp("s"))
    keys = pa.array([1] * len(ts) if k is None else k, pa.int64())
    return pa.table({"k": keys, "ts": seconds if type_ is None else seconds.cast(type_)})


WINDOWS = {
    "rows": sj.rows(5),
    "within": sj.within("9s", time="ts"),
    "interval": sj.interval("9s", "9s", time="ts", lateness="1s"),
}
REFUSED = {
    "disorder in the batch": (typed([4, 6, 5]), sj.OrderError, "row 2.*sort the source"),
    "disorder after the batch before": (typed([2]), sj.OrderError, "after .*03 in the batch before"),
    "no key": (typed([4]).drop_columns(["k"]), sj.SchemaError, "'k'"),
    "no time": (typed([4]).drop_columns(["ts"]), sj.SchemaError, "'ts'"),
    "another column": (typed([4]).append_column("x", pa.array([1])), sj.SchemaError, "'x'"),
    "a key that does not fit": (
        typed([4]).set_column(0, "k", pa.array([1.5])), sj.SchemaError, "'k'"
    ),
    "a time that does not fit": (
        typed([4]).set_column(1, "ts", pa.array([4500]).cast(pa.timestamp("ms"))), sj.SchemaError, "'ts'"
    ),
    "a zone": (
        typed([4], type_=pa.timestamp("s", "UTC")), sj.SchemaError, "'ts'"
    ),
    "no table": (3, sj.SchemaError, "expected a pyarrow Table"),
}  # fmt: skip


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED)
def test_a_refused_push_changes_nothing(window, refused):
    batch, error, message = refused
    join, a, c = opened(window)
    before = join.snapshot()
    with pytest.raises(error, match=message):
        c.push(batch)
    assert join.snapshot() == before
    assert c.push(typed([4])).num_rows == 1  # with 1; the 5 waits
    assert a.push(typed([6])).num_rows == 0
    assert join.finish().num_rows == 4


FIRST = {
    "disorder": (typed([5, 4], type_=pa.timestamp("ms")), sj.OrderError, "sort the source"),
    "no time": (typed([4]).drop_columns(["ts"]), sj.SchemaError, "'ts'"),
    "no key": (typed([4]).drop_columns(["k"]), sj.SchemaError, "'k'"),
    "a zone": (typed([4], type_=pa.timestamp("s", "UTC")), sj.SchemaError, "zone"),
    "no time at all": (
        typed([4]).set_column(1, "ts", pa.array(["4"])), sj.SchemaError, "'ts'"
    ),
}  # fmt: skip


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize("refused", FIRST.values(), ids=FIRST)
def test_a_refused_first_push_fixes_neither_columns_nor_the_unit_of_time(window, refused):
    batch, error, message = refused
    join = sj.WindowJoin(sj.band("k", within=1), window)
    time = {"time": "ts"} if isinstance(window, Rows) else {}
    a, c = join.source("left", "a", **time), join.source("right", "c", **time)
    a.push(typed([1, 5]))
    before = join.snapshot()
    with pytest.raises(error, match=message):
        c.push(batch)
    assert join.snapshot() == before
    assert c.push(typed([4])).num_rows == 1  # with 1; the 5 waits
    assert sj.WindowJoin.restore(join.snapshot()).finish().num_rows == 1
    assert join.finish().num_rows == 1


def test_the_very_first_push_refused_does_not_fix_the_unit_of_time():
    join = sj.WindowJoin(sj.equal("k"), sj.within("9s", time="ts"))
    a, c = join.source("left", "a"), join.source("right", "c")
    with pytest.raises(sj.OrderError):
        c.push(typed([5, 4], type_=pa.timestamp("ms")))
    a.push(typed([1, 3]))
    assert c.push(typed([2])).num_rows == 1


def test_an_error_shows_times_in_the_unit_of_the_batch():
    join = sj.WindowJoin(sj.equal("k"), sj.within("9s", time="ts"))
    join.source("left", "a").push(typed([1, 5]))
    with pytest.raises(sj.OrderError, match="00:00:04 after 1970-01-01 00:00:05"):
        join.source("right", "c").push(typed([5, 4], type_=pa.timestamp("ms")))


def test_a_finished_source_does_not_change_the_unit_of_time():
    join, _, _ = opened(sj.within("9s", time="ts"))
    d = join.source("right", "d")
    d.finish()
    before = join.snapshot()
    with pytest.raises(sj.UsageError, match="is finished"):
        d.push(typed([4]))
    assert join.snapshot() == before


def test_a_join_with_sources_takes_no_direct_push_and_no_promise_about_rows_that_wait():
    join, a, _ = opened(WINDOWS["interval"])
    before = join.snapshot()
    with pytest.raises(sj.UsageError, match="has sources"):
        join.push(left=typed([9]))
    with pytest.raises(sj.UsageError, match="has sources"):
        join.push(arrivals=typed([9]).append_column("side", pa.array(["left"])))
    with pytest.raises(sj.UsageError, match=r"1 rows of left before .* wait"):
        join.advance(pa.scalar(7, pa.timestamp("s")))
    assert join.snapshot() == before
    join.advance(pa.scalar(4, pa.timestamp("s")), side="left")
    assert a.push(typed([6])).num_rows == 0
    assert join.finish().num_rows > 0


def test_wrong_names_and_sides_open_nothing():
    join = sj.WindowJoin(sj.equal("k"), sj.rows(3))
    for call, message in (
        (lambda: join.source("middle", "a", time="ts"), "expected 'left' or 'right'"),
        (lambda: join.source("left", "a"), "names no timestamps"),
        (lambda: join.source("left", 3, time="ts"), "expected a text"),
    ):
        with pytest.raises(sj.UsageError, match=message):
            call()
    join.source("left", "a", time="ts")
    with pytest.raises(sj.UsageError, match="timestamps of left are in 'ts'"):
        join.source("left", "b", time="when")
    timed_join = sj.WindowJoin(sj.equal("k"), sj.within(3, time="ts"))
    with pytest.raises(sj.UsageError, match="timestamps of left are in 'ts'"):
        timed_join.source("left", "b", time="when")
    own = sj.WindowJoin(sj.equal("k"), sj.rows(3), self_join=True)
    with pytest.raises(sj.UsageError, match="one stream"):
        own.source("left", "a", time="ts")


def test_a_column_of_time_that_is_not_there():
    join = sj.WindowJoin(sj.equal("k"), sj.rows(3))
    source = join.source("left", "a", time="when")
    before = join.snapshot()
    with pytest.raises(sj.SchemaError, match="'when'"):
        source.push(typed([1]))
    assert join.snapshot() == before


# --- rows that came before there were sources ---


@pytest.mark.parametrize("window", [sj.rows(3), sj.within("9s", time="ts")], ids=["rows", "within"])
def test_sources_are_opened_before_the_first_row(window):
    """Rows that came without one have no place in the order."""
    join = sj.WindowJoin(sj.equal("k"), window)
    join.push(right=typed([100]))
    with pytest.raises(sj.UsageError, match="before the first row"):
        join.source("left", "a", time="ts")
    assert join.push(left=typed([100])).num_rows == 1


def test_rows_that_wait_are_asked_whether_they_fit_the_columns_of_the_other_side():
    """As rows that are stored are, so that the other side's first batch is refused and not theirs later."""
    join = sj.WindowJoin(sj.equal("k"), sj.within(5, time="ts"))
    a, c = join.source("left", "a"), join.source("right", "c")
    far = pa.array([10**11], pa.int64()).cast(pa.timestamp("s"))
    a.push({"k": far, "ts": [1]})
    finer = pa.array([5], pa.int64()).cast(pa.timestamp("ns"))
    with pytest.raises(sj.SchemaError, match="does not fit"):
        c.push({"k": finer, "ts": [0]})
    join.finish()


# --- what a restore must bring back, and the properties meet too seldom ---


def test_what_was_handed_out_is_known_after_a_restore():
    """A window of rows has no times of its own: only the order can refuse what comes too late."""
    join = sj.WindowJoin(sj.equal("k"), sj.rows(3))
    join.source("left", "a", time="ts").idle()
    join.source("right", "c", time="ts").push(typed([10]))
    assert join.stats["rows_right"] == 1
    join = sj.WindowJoin.restore(join.snapshot())
    with pytest.raises(sj.OrderError, match="joined already"):
        join.source("left", "a", time="ts").push(typed([5]))


def test_a_null_that_waits_keeps_its_time_after_a_restore():
    """It sorts with the row before it, which was joined long ago; a null in front would sort before all."""
    join = sj.WindowJoin(sj.equal("k"), sj.rows(3))
    a, c = join.source("left", "a", time="ts"), join.source("right", "c", time="ts")
    a.push(typed([8]))
    c.push(typed([8]))
    assert join.stats["rows_left"] == 1
    join.source("right", "d", time="ts")  # from now on nothing is ready until it speaks
    a.push(typed([None]))
    join = sj.WindowJoin.restore(join.snapshot())
    join.source("right", "c", time="ts").push(typed([9]))
    assert join.stats["rows_left"] == 1
    join.source("right", "d", time="ts").push(typed([9]))
    assert join.stats["rows_left"] == 2


# --- names ---


@pytest.mark.parametrize("name", ["", " ", "left", "waiting left a", "é\x00\ud800", "a" * 300])
def test_any_text_is_a_name_and_survives_a_restore(name):
    join = sj.WindowJoin(sj.equal("k"), sj.within("9s", time="ts"))
    join.source("left", name).push(typed([1, 2]))
    join.source("right", name).push(typed([2]))
    join = sj.WindowJoin.restore(join.snapshot())
    assert join.source("left", name).name == name
    assert join.source("left", name).push(typed([3])).num_rows == 2
    assert join.finish().num_rows == 1
