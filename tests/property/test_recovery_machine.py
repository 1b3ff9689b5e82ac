"""A join that crashes and continues from a snapshot loses no result and returns none twice.

The machine of ``test_window_join_machine`` compares every call with a reference that never stops. Here the
join is replaced between the steps: restored from a whole snapshot or from a head and chunks, with another
index, or after a crash that lost the last calls. These calls are then repeated and must return the same.
"""

import copy
import random
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from property.test_window_join_machine import IDLE_AFTER, LONG, Machine
from window_cases import HOWS, SIDES, counters, id_pairs, ids_of, specs

import slidejoin as sj
from slidejoin import reference

INDEXES = st.sampled_from([None, None, "auto", "b-tree", "nested-loop"])
SEEDS = st.integers(0, 2**32)


@dataclass
class Store:
    """What a user keeps of the increments: chunks by their ids, and one head."""

    chunks: dict[str, bytes] = field(default_factory=dict)
    head: bytes | None = None
    token: str | None = None
    kept: Any = None  # the Moment of the head

    def write(self, new, moment, dies_after="all"):
        """Chunks, then the head, then the dead; a crash may come between."""
        assert not set(new.chunks) & set(self.chunks), "an id that was there"
        self.chunks.update(new.chunks)
        if dies_after == "chunks":
            return
        self.head, self.token, self.kept = new.head, new.token, moment
        if dies_after == "head":
            return
        assert not set(new.dead) & set(new.alive)
        for name in new.dead:
            self.chunks.pop(name, None)  # those of an increment that was lost were never here
        assert set(new.alive) <= set(self.chunks)

    def restore(self, **options):
        return sj.WindowJoin.restore(self.head, chunks=self.chunks, **options)


@dataclass(frozen=True)
class Moment:
    """How many calls there were when a snapshot was taken, and when each side was last heard of."""

    calls: int
    last_seen: tuple[int, int]


class Recovery(Machine):
    """Kept snapshots: `self.wholes`, the newest last, and the increments of `self.store`."""

    def begin(self, spec, idle, known, start):
        super().begin(spec, idle, known, start)
        self.calls = []  # (name, arguments, options, wall clock, what came out)
        self.wholes = []
        self.store = Store()
        self.watch(self.join)

    # --- the calls, to make them again ---

    def watch(self, join):
        """Note what is asked of a join and what it answers; a refused call is no call."""
        for name in ("push", "advance", "take_late"):
            setattr(join, name, self.noted(name, getattr(join, name)))

    def noted(self, name, method):
        def call(*args, **options):
            result = method(*args, **options)
            self.calls.append((name, args, options, self.wall, self.said(name, args, result)))
            return result

        return call

    def said(self, name, args, result):
        if name != "take_late":
            return id_pairs(self.spec, result)
        return ids_of(SIDES.index(args[0]), result) if result.num_columns else []

    def moment(self):
        return Moment(len(self.calls), tuple(self.last_seen))

    def caught_up(self, join, moment):
        """A restored join after the calls that it does not know of."""
        join._last_seen = list(moment.last_seen)
        for name, args, options, wall, before in self.calls[moment.calls :]:
            join._clock = lambda wall=wall: wall
            again = self.said(name, args, getattr(join, name)(*args, **options))
            if self.spec.order == "full" or name == "take_late":
                assert again == before
            else:
                assert sorted(again, key=str) == sorted(before, key=str)
        join._clock = lambda: self.wall
        assert counters(self.spec, join.stats) == counters(self.spec, self.join.stats)
        join.check()
        return join

    def go_on_with(self, join):
        self.join = join
        self.watch(join)

    # --- whole snapshots ---

    @rule()
    def keep_whole(self):
        self.wholes.append((self.join.snapshot(), self.moment()))

    @rule(index=INDEXES)
    def restart(self, index):
        """From a snapshot of this very moment: no call is missing."""
        join = sj.WindowJoin.restore(self.join.snapshot(), index=index)
        self.go_on_with(self.caught_up(join, self.moment()))
        self.refuse_the_token()

    @precondition(lambda self: self.spec is not None and self.wholes)
    @rule(index=INDEXES, back=st.integers(0, 2))
    def crash_and_take_a_whole(self, index, back):
        """The newest of the snapshots may not be the one that is found."""
        data, moment = self.wholes[-min(back + 1, len(self.wholes))]
        self.go_on_with(self.caught_up(sj.WindowJoin.restore(data, index=index), moment))
        self.refuse_the_token()

    # --- increments ---

    @rule(dies_after=st.sampled_from(["all", "all", "head", "chunks"]))
    def keep_increment(self, dies_after):
        self.store.write(self.join.snapshot_since(self.store.token), self.moment(), dies_after)
        if dies_after != "all" and self.store.head is not None:
            self.crash_and_take_the_head(None)

    @rule()
    def lose_increment(self):
        """It never reaches the store, so the next one is asked for with the older token."""
        self.join.snapshot_since(self.store.token)

    @precondition(lambda self: self.spec is not None and self.store.head is not None)
    @rule(index=INDEXES)
    def crash_and_take_the_head(self, index):
        self.go_on_with(self.caught_up(self.store.restore(index=index), self.store.kept))

    @precondition(lambda self: self.spec is not None and self.store.head is not None)
    @rule()
    def fork(self):
        """Two joins of one head: they agree, their chunks keep apart, their tokens are refused crosswise."""
        twins = [self.caught_up(self.store.restore(), self.store.kept) for _ in range(2)]
        new = [twin.snapshot_since(self.store.token) for twin in twins]
        assert not set(new[0].chunks) & set(new[1].chunks)
        both = {**self.store.chunks, **new[0].chunks, **new[1].chunks}
        for each in new:
            self.caught_up(sj.WindowJoin.restore(each.head, chunks=both), self.moment())
        for twin, other in zip(twins, new[::-1], strict=True):
            with pytest.raises(sj.StateError, match="of another join"):
                twin.snapshot_since(other.token)
        self.go_on_with(twins[0])

    def refuse_the_token(self):
        """A whole snapshot knows of no chunks: what goes on from it starts a store of its own."""
        if self.store.token is not None:
            with pytest.raises(sj.StateError, match="of another join"):
                self.join.snapshot_since(self.store.token)
        self.store = Store()

    # --- what is torn ---

    @rule(seed=SEEDS)
    def tear_a_whole(self, seed):
        with pytest.raises(sj.StateError):
            sj.WindowJoin.restore(torn(self.join.snapshot(), seed))
        if self.wholes:
            self.crash_and_take_a_whole(None, 0)

    @precondition(lambda self: self.spec is not None and self.store.head is not None)
    @rule(seed=SEEDS)
    def tear_an_increment(self, seed):
        new = self.join.snapshot_since(self.store.token)
        chunks = {**self.store.chunks, **new.chunks}
        with pytest.raises(sj.StateError):
            sj.WindowJoin.restore(torn(new.head, seed), chunks=chunks)
        for name in new.chunks:
            with pytest.raises(sj.StateError, match=r"missing|damaged"):
                sj.WindowJoin.restore(new.head, chunks={**chunks, name: torn(chunks[name], seed)})
        self.crash_and_take_the_head(None)

    # --- the end, of a copy ---

    @rule()
    def finish_a_copy(self):
        """What would come out at the end, which only outer joins and rows held back show."""
        copied = self.caught_up(sj.WindowJoin.restore(self.join.snapshot()), self.moment())
        wanted = [*self.owed, copy.deepcopy(self.model).finish()]
        found = id_pairs(self.spec, copied.finish())
        assert reference.agrees(found, wanted, self.spec.order, self.spec.how), (found, wanted)

    # --- time ---

    @precondition(lambda self: self.is_event() and self.spec.idle_after is not None and any(self.known))
    @rule(nanoseconds=st.sampled_from([1, IDLE_AFTER - 1, IDLE_AFTER, 5 * IDLE_AFTER]))
    def wait(self, nanoseconds):
        """Not before the first batch: a join without an engine does not count silence."""
        self.wall += nanoseconds

    @precondition(lambda self: self.is_event() and any(self.known) and self.clock.unit > 1)
    @rule(back=st.integers(-3000, 9000), side=st.sampled_from([None, 0, 1]))
    def advance_finely(self, back, side):
        """A promise is kept exactly while the finer side is not known."""
        side = None if self.spec.self_join else side
        to = max(self.clock.now - back * self.clock.unit // 1000, 0)
        wanted = self.model.advance(to, side)
        self.agree(self.join.advance(self.spec.point(to), None if side is None else SIDES[side]), [wanted])
        for each in (0, 1) if side is None else (side,):
            self.last_seen[each] = self.wall

    @invariant()
    def counters_agree(self):
        if self.spec is None:
            return
        wanted, found = self.model.counters, counters(self.spec, self.join.stats)
        if not all(self.known):  # the unit of time may be the coarser one
            for part in (wanted, found):
                at = part["watermark"]
                part["watermark"] = None if at is None else at // self.clock.unit
        assert found == wanted

    def teardown(self):
        if self.spec is not None:
            self.agree(self.join.finish(), [self.model.finish()], at_the_end=True)
            self.counters_agree()


def torn(data, seed):
    """A document of which the end is missing, or a bit differs."""
    choose = random.Random(seed)
    place = choose.randrange(len(data))
    if choose.random() < 0.3:
        return data[:place]
    broken = bytearray(data)
    broken[place] ^= 1 << choose.randrange(8)
    return bytes(broken)


class TypesRecovery(Recovery):
    """Every join type but inner, on keys that meet often: flags of rows that matched."""

    @initialize(
        spec=specs(kinds=("int8", "dictionary"), self_joins=False, hows=HOWS[1:], most=1),
        idle=st.booleans(),
        known=st.booleans(),
        start=st.just(50),
    )
    def start(self, spec, idle, known, start):
        self.begin(spec, idle, known, start)


class EarlyRecovery(Recovery):
    """One side is known and the other a guess: rows held back, types that widen, times that become finer."""

    @initialize(
        spec=specs(
            kinds=("int8", "int8, int32", "float64, float32", "ms, us", "zones", "decimals", "texts"),
            windows_of=("within", "interval", "interval"),
            self_joins=False,
            hows=HOWS,
            most=2,
        ),
        first=st.integers(0, 1),
    )
    def start(self, spec, first):
        self.begin(spec, False, False, 50)
        self.first = first
        self.early = 12  # steps during which the other side stays away

    def push_side(self, side, rows, store=True):
        if self.early and side != self.first:
            self.early -= 1
            side, rows = self.first, []
        super().push_side(side, rows, store)

    def push_both(self, rows, store=True):
        if self.early:
            self.early -= 1
            self.push_side(self.first, [row for row in rows if row.side == self.first], store)
        else:
            super().push_both(rows, store)


# --- what the machines meet too seldom to rely on it ---


def whole(join):
    return sj.WindowJoin.restore(join.snapshot())


def in_parts(join):
    new = join.snapshot_since()
    return sj.WindowJoin.restore(new.head, chunks=new.chunks)


AGAIN = pytest.mark.parametrize("again", [whole, in_parts])


def at(unit, *times):
    return {"k": [1] * len(times), "ts": pa.array(times, pa.int64()).cast(pa.timestamp(unit))}


@AGAIN
def test_a_promise_in_parts_of_a_unit_means_all_it_said_after_a_restore(again):
    window = sj.interval("3ms", "3ms", time="ts")
    join = sj.WindowJoin(sj.equal("k"), window)
    join.push(left=at("ms", 60))
    join.advance(pa.scalar(51_793, pa.timestamp("us")))
    join = again(join)
    join.push(right=at("us", 51_792, 51_793))  # the first is late, the second is not
    assert (join.stats["late_right"], join.stats["rows_right"]) == (1, 1)
    assert join.stats["watermark"].microsecond == 51_793


@AGAIN
@pytest.mark.parametrize("side", [0, 1])
def test_the_progress_of_a_side_survives(again, side):
    join = sj.WindowJoin(sj.equal("k"), sj.interval(9, 9, time="ts", lateness=1))
    join.push(**{SIDES[side]: {"k": [1], "ts": [10]}})
    join = again(join)
    join.push(**{SIDES[1 - side]: {"k": [1], "ts": [20]}})
    assert join.stats["watermark"] == 9


@AGAIN
def test_a_side_at_rest_stays_so(again):
    window = sj.interval(9, 9, time="ts", lateness=1, idle_after="1s")
    schema = pa.schema([("k", pa.int64()), ("ts", pa.int64())])
    join = sj.WindowJoin(sj.equal("k"), window, schemas=(schema, schema))
    start = join._last_seen[0]
    join._clock = lambda: start + 10**10
    join.push(left={"k": [1], "ts": [10]})
    assert join.stats["watermark"] == 9
    join = again(join)
    join.push(left={"k": [1], "ts": [20]})  # right is silent since a moment only, but rests already
    assert join.stats["watermark"] == 19


EFFORT = settings(
    max_examples=max(settings().max_examples * (6 if LONG else 3) // 10, 10), stateful_step_count=20
)
TestRecovery, TestRecoveryOfTypes = Recovery.TestCase, TypesRecovery.TestCase
TestEarlyRecovery = EarlyRecovery.TestCase
TestRecovery.settings = TestRecoveryOfTypes.settings = TestEarlyRecovery.settings = EFFORT
