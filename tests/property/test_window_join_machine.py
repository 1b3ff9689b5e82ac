"""After every step of a random sequence a join and the reference agree on results, counters and state."""

import os
import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from window_cases import HOWS, ONLY, SIDES, Clock, Model, Row, counters, id_pairs, key_rows, specs

import slidejoin as sj
from slidejoin import reference

LONG = os.environ.get("SLIDEJOIN_TESTS") == "long"
IDLE_AFTER = 1000
STORES = st.sampled_from([True, True, True, False])


class Machine(RuleBasedStateMachine):
    """Batches of either side or of both, kept or only probing; watermarks, late rows, silent sides.

    Every rule hands what came out, and what the reference says of it, to `agree`.
    """

    def __init__(self):
        super().__init__()
        self.spec = None

    @initialize(
        spec=specs(hows=HOWS), idle=st.booleans(), known=st.booleans(), start=st.sampled_from([0, 500])
    )
    def start(self, spec, idle, known, start):
        self.begin(spec, idle, known, start)

    def begin(self, spec, idle, known, start):
        if idle and isinstance(spec.window, reference.Interval):
            spec = type(spec)(**{**vars(spec), "idle_after": IDLE_AFTER})
        self.spec = spec
        self.join = spec.join(known=known)
        self.known = [known, known]
        self.model = Model(spec)
        self.owed = []  # what came out of the reference before the join could say it in columns
        self.clock = Clock(spec, start * Clock(spec).unit)
        self.taken = ([], [])
        self.pushed = 0
        self.wall = 10**9
        self.join._clock = lambda: self.wall
        self.join._last_seen = [self.wall] * 2
        self.last_seen = [self.wall] * 2

    # --- rows ---

    @rule(data=st.data(), store=STORES)
    def push_one_side(self, data, store):
        side = 0 if self.spec.self_join else data.draw(st.integers(0, 1))
        drawn = data.draw(key_rows(self.spec, max_size=6))
        self.push_side(side, [row for row in self.clock.rows(drawn) if row.side == side], store)

    @rule(side=st.integers(0, 1))
    def push_nothing(self, side):
        self.push_side(0 if self.spec.self_join else side, [])

    @rule(data=st.data(), store=STORES)
    def push_arrivals(self, data, store):
        self.push_both(self.clock.rows(data.draw(key_rows(self.spec, max_size=10))), store)

    @rule(data=st.data(), seed=st.integers(0, 999), size=st.integers(30, 70), store=STORES)
    def push_many(self, data, seed, size, store):
        """More rows than hypothesis likes to draw: a few of them, over and over."""
        some = data.draw(key_rows(self.spec, max_size=8))
        choose = random.Random(seed)
        if some:
            self.push_both(self.clock.rows([choose.choice(some) for _ in range(size)]), store)

    def push_side(self, side, rows, store=True):
        ids = self.number(rows)
        table = self.spec.table(side, rows, ids)
        wanted = self.rest_silent_sides({side} if rows else set()) + self.model.push(rows, ids, store)
        if self.spec.self_join:
            result = self.join.push(table, **probing(store))
        else:
            result = self.join.push(**{SIDES[side]: table}, **probing(store))
        self.known[side] = True
        self.agree(result, wanted)

    def push_both(self, rows, store=True):
        if self.spec.self_join:
            self.push_side(0, rows, store)
            return
        if not self.spec.one_name:  # the sides' columns are not told apart unless they are known
            for side in (0, 1):
                if not self.known[side]:
                    self.push_side(side, [])
        ids = self.number(rows)
        wanted = self.rest_silent_sides({row.side for row in rows}) + self.model.push(rows, ids, store)
        result = self.join.push(arrivals=self.spec.arrivals(rows, ids), **probing(store))
        self.known = [True, True]
        self.agree(result, wanted)

    def number(self, rows):
        ids = list(range(self.pushed, self.pushed + len(rows)))
        self.pushed += len(rows)
        return ids

    # --- results ---

    def agree(self, result, chunks, *, at_the_end=False):
        """Compare with the reference's results; without columns to say them in, they are owed."""
        self.owed += chunks
        wanted = self.owed if self.has_columns() or at_the_end else []
        found = id_pairs(self.spec, result)
        assert reference.agrees(found, wanted, self.spec.order, self.spec.how), (found, wanted)
        if wanted:
            self.owed = []

    def has_columns(self):
        if self.spec.self_join:
            return self.known[0]
        if self.spec.how in ONLY:
            return self.known[ONLY[self.spec.how]]
        return all(self.known)

    # --- time ---

    def is_event(self):
        return self.spec is not None and isinstance(self.spec.window, reference.Interval)

    @precondition(lambda self: self.is_event() and any(self.known))
    @rule(back=st.integers(-5, 15), side=st.sampled_from([None, 0, 1]))
    def advance(self, back, side):
        side = None if self.spec.self_join else side
        to = max(self.clock.now - back * self.clock.unit, 0)
        wanted = self.model.advance(to, side)
        self.agree(self.join.advance(self.spec.point(to), None if side is None else SIDES[side]), [wanted])
        for each in (0, 1) if side is None else (side,):
            self.last_seen[each] = self.wall

    @precondition(lambda self: self.is_event() and self.spec.idle_after is not None)
    @rule(nanoseconds=st.sampled_from([1, IDLE_AFTER // 2, IDLE_AFTER - 1, IDLE_AFTER, 5 * IDLE_AFTER]))
    def wait(self, nanoseconds):
        self.wall += nanoseconds

    def rest_silent_sides(self, speaking):
        """Silence ends before the rows of a batch arrive: what it made final comes first."""
        if self.spec.idle_after is None:
            return []
        made_final = []
        for side in (0,) if self.spec.self_join else (0, 1):
            if side in speaking:
                self.last_seen[side] = self.wall
            elif self.wall - self.last_seen[side] >= self.spec.idle_after:
                made_final.append(self.model.idle(side))
        return made_final

    @precondition(lambda self: self.spec is not None and isinstance(self.spec.window, reference.Within))
    @rule(data=st.data(), back=st.integers(1, 5))
    def push_out_of_order(self, data, back):
        """Refused with the rows before it: the reference never hears of them."""
        rows = self.clock.rows(data.draw(key_rows(self.spec, max_size=3)))
        rows = [row for row in rows if row.side == 0]
        latest = max([*self.model.join._greatest_ts, *(row.ts for row in rows if row.ts is not None)])
        ts = latest - back * self.clock.unit
        if ts < 0:
            return
        key = tuple(None for _ in self.spec.on)
        table = self.spec.table(0, [*rows, Row(0, key, int(ts))], list(range(len(rows) + 1)))
        with pytest.raises(sj.OrderError, match=rf"\b{len(rows)}\b"):
            self.join.push(table) if self.spec.self_join else self.join.push(left=table)

    @precondition(lambda self: self.is_event())
    @rule(side=st.integers(0, 1))
    def take_late(self, side):
        side = 0 if self.spec.self_join else side
        if self.spec.window.late == "drop":
            with pytest.raises(sj.UsageError, match="late rows are not kept"):
                self.join.take_late(SIDES[side])
            return
        table = self.join.take_late(SIDES[side])
        ids = self.model.late[side][len(self.taken[side]) :]
        self.taken[side].extend(ids)
        assert (table[self.spec.names(side)[-2]].to_pylist() if table.num_columns else []) == ids

    # --- what always holds ---

    @invariant()
    def counters_agree(self):
        if self.spec is not None:
            assert counters(self.spec, self.join.stats) == self.model.counters

    @invariant()
    def invariants_hold(self):
        if self.spec is not None:
            self.join.check()

    def teardown(self):
        if self.spec is not None:
            self.agree(self.join.finish(), [self.model.finish()], at_the_end=True)
            assert counters(self.spec, self.join.stats) == self.model.counters
            with pytest.raises(sj.UsageError, match="finished"):
                self.join.finish()


def probing(store):
    """The option of a push whose rows are not kept."""
    return {} if store else {"store": False}


class EventMachine(Machine):
    """Windows of event time alone: most rules are about them."""

    @initialize(
        spec=specs(windows_of=("interval",), hows=HOWS, most=1),
        idle=st.just(True),
        known=st.booleans(),
        start=st.just(50),
    )
    def start(self, spec, idle, known, start):
        self.begin(spec, idle, known, start)


class TypesMachine(Machine):
    """Joins of two sides alone, of every type but inner, on keys that meet often."""

    @initialize(
        spec=specs(kinds=("int8", "float32", "string"), self_joins=False, hows=HOWS[1:], most=1),
        idle=st.booleans(),
        known=st.booleans(),
        start=st.just(50),
    )
    def start(self, spec, idle, known, start):
        self.begin(spec, idle, known, start)


EFFORT = settings(max_examples=max(settings().max_examples // (2 if LONG else 3), 10), stateful_step_count=20)
TestEveryWindow, TestEventTime = Machine.TestCase, EventMachine.TestCase
TestEveryType = TypesMachine.TestCase
TestEveryWindow.settings = TestEventTime.settings = TestEveryType.settings = EFFORT
