"""Block processing: real tuples, whatever moves when; every pair of the reference comes out exactly once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slidejoin import reference
from slidejoin.cluster.blocks import BlockWindow, Kernel, MiniGroup, as_tuples
from slidejoin.cluster.extendible import Bucket
from slidejoin.cluster.group import PartitionGroup
from slidejoin.cluster.load import Move
from slidejoin.cluster.master import Master
from slidejoin.cluster.node import Node
from slidejoin.cluster.reorganise import Policy
from slidejoin.errors import OrderError, SpecError, UsageError

RESTLESS = Policy(supplier_threshold=0.02, consumer_threshold=0.01, choice="random", adaptive=True)
ACTIONS = ("distribute", "subgroup", "work", "work some", "begin", "end", "sample", "reorganise")


def tuples(keys, times, first=0):
    return as_tuples(np.array(keys), np.array(times), first)


def found(pairs):
    return sorted(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True))


def expected(rows, window):
    join = reference.ReferenceJoin(reference.equal(), reference.Within(window))
    return sorted(pair for side, key, time in rows for pair in join.push(side, key, time))


class Run:
    """Arrivals, and actions of master and nodes between them."""

    def __init__(self, master, random):
        self.master, self.random, self.pairs = master, random, []

    def act(self, action):
        master, random = self.master, self.random
        node = random.randrange(len(master.nodes))
        if action == "distribute":
            master.distribute()
        elif action == "subgroup":
            master.distribute([node])
        elif action in ("work", "work some"):
            blocks = None if action == "work" else random.randint(1, 3)
            self.pairs += found(master.work([node], blocks))
        elif action == "begin":
            group = random.randrange(len(master.owners))
            source = int(master.owners[group])
            if group not in master.moving and source != node:
                master.begin_move(Move(group, source, node))
        elif action == "end" and master.moving:
            master.end_move(random.choice(master.moving))
        elif action == "sample":
            master.sample()
        elif action == "reorganise":
            master.reorganise()
        self.check()

    def check(self):
        """No group is lost or owned twice; no tuple is lost."""
        master = self.master
        held = [group for node in master.nodes for group in node.groups]
        assert sorted(held + master.moving) == list(range(len(master.owners)))
        for node in master.nodes:
            for number, group in node.groups.items():
                assert master.owners[number] == node.number
                assert set(group.directory.buckets) == set(group.sizes)
        if not master.moving:
            groups = [group for node in master.nodes for group in node.groups.values()]
            inside = sum(group.waiting + group.stored + group.expired for group in groups)
            assert inside + master.buffered == sum(master._arrived)

    def finish(self):
        for group in self.master.moving:
            self.master.end_move(group)
        self.master.distribute()
        self.pairs += found(self.master.work())
        self.check()
        assert self.master.buffered == sum(node.waiting for node in self.master.nodes) == 0
        return sorted(self.pairs)


@given(st.data(), st.randoms(use_true_random=False))
def test_no_pair_is_lost_or_doubled_whatever_moves_when(data, random):
    window = data.draw(st.integers(1, 60))
    many = data.draw(st.sampled_from([2, 8, 40]))  # keys
    master = Master(
        window,
        nodes=data.draw(st.integers(1, 4)),
        groups=data.draw(st.sampled_from([1, 3, 7])),
        block=data.draw(st.integers(1, 6)),
        theta=data.draw(st.sampled_from([None, 1, 2.5])),
        policy=RESTLESS,
        capacity=10,
    )
    run, rows, now = Run(master, random), [], 0
    for _ in range(data.draw(st.integers(1, 12))):
        batch = []
        for _ in range(random.randint(0, 15)):
            now += random.choice((0, 0, 1, 1, 2, 30))
            batch.append((random.randint(0, 1), random.randrange(many), now))
        rows += batch
        master.arrive(
            *(np.array(column, dtype=np.int64) for column in zip(*batch, strict=True))
        ) if batch else None
        for _ in range(random.randint(0, 6)):
            run.act(random.choice(ACTIONS))
    assert run.finish() == expected(rows, window)


def test_windows_of_different_lengths():
    random = np.random.default_rng(3)
    rows = np.stack(
        [random.integers(0, 2, 400), random.integers(0, 9, 400), np.sort(random.integers(0, 300, 400))]
    )
    master = Master((20, 5), nodes=3, groups=5, block=4, theta=2)
    pairs = []
    for at in range(0, 400, 25):
        master.arrive(*rows[:, at : at + 25])
        master.distribute()
        pairs += found(master.work())
    left, right = (rows[1:, rows[0] == side] for side in (0, 1))
    gap = right[1][None, :] - left[1][:, None]
    wanted = np.argwhere((left[0][:, None] == right[0][None, :]) & (gap >= -5) & (gap <= 20))
    assert sorted(pairs) == sorted(map(tuple, wanted.tolist()))
    assert sum(group.stored for node in master.nodes for group in node.groups.values()) < 150


# --- The rules, one by one ---


def test_fresh_tuples_of_both_sides_meet_once():
    mini, kernel = MiniGroup.empty(4), Kernel(10, 10)
    assert mini.add(0, tuples([1, 1], [1, 2]), kernel) == []
    assert mini.add(1, tuples([1], [3]), kernel) == []
    assert found(mini.join_fresh(0, kernel)) == []  # the right one is fresh: it will come
    assert found(mini.join_fresh(1, kernel)) == [(0, 0), (1, 0)]
    assert found(mini.join_fresh(0, kernel)) == []


def test_a_full_head_is_joined_at_once():
    mini, kernel = MiniGroup.empty(2), Kernel(10, 10)
    mini.add(1, tuples([1], [0]), kernel)
    mini.join_fresh(1, kernel)
    pairs = mini.add(0, tuples([1, 1, 1], [1, 2, 3]), kernel)
    assert [found(each) for each in pairs] == [[(0, 0), (1, 0)]]
    assert (len(mini.windows[0].full), mini.windows[0].head.size, mini.windows[0].fresh) == (1, 1, 1)


def test_a_block_that_expires_meets_the_fresh_tuples_first():
    mini, kernel = MiniGroup.empty(2), Kernel(10, 10)
    mini.add(0, tuples([1, 1], [0, 1]), kernel)
    mini.add(1, tuples([1], [9]), kernel)
    pairs, gone = mini.expire(0, 2, kernel)
    assert ([found(each) for each in pairs], gone) == ([[(0, 0), (1, 0)]], 2)
    assert found(mini.join_fresh(1, kernel)) == []


def test_blocks_expire_as_a_whole():
    window = BlockWindow(2)
    for at in range(4):
        window.add(tuples([at], [at], at))
        window.settle()
    assert window.expired(1) == []  # the first block has a tuple of time 1
    assert [each.times.tolist() for each in window.expired(2)] == [[0, 1]]
    window.add(tuples([9], [4], 4))
    assert [each.times.tolist() for each in window.expired(99)] == [[2, 3]]  # a fresh tuple is not done yet
    window.settle()
    assert [each.times.tolist() for each in window.expired(99)] == [[4]]
    assert window.count == 0


@pytest.mark.parametrize("theta", [1, 3])
def test_groups_are_tuned_while_they_grow_and_shrink(theta):
    master = Master(100, nodes=1, groups=1, block=8, theta=theta)
    (group,) = master.nodes[0].groups.values()
    for start, keys in ((0, 400), (200, 400), (10_000, 3), (20_000, 1)):
        master.arrive(np.arange(keys) % 2, np.arange(keys), np.full(keys, start))
        master.distribute()
        master.work()
        assert max(group.sizes.values()) <= 2 * theta + 2  # a started block on each side
    assert len(group.directory.buckets) == 1
    assert group.stored < 16


def test_refused():
    with pytest.raises(SpecError, match="nodes 0"):
        Master(10, nodes=0)
    with pytest.raises(SpecError, match="window -1"):
        Master(-1, nodes=1)
    with pytest.raises(SpecError, match="block 0"):
        Node(0, Kernel(1, 1), block=0)
    master = Master(10, nodes=2, groups=2)
    with pytest.raises(SpecError, match="1 sides, 2 keys and 1 times"):
        master.arrive([0], [1, 2], [1])
    master.arrive([0], [1], [5])
    with pytest.raises(OrderError, match=r"times\[1\] is 4"):
        master.arrive([0, 0], [1, 2], [5, 4])
    with pytest.raises(OrderError, match=r"times\[0\] is 4"):
        master.arrive([0], [1], [4])
    assert master.buffered == 1
    master.begin_move(Move(0, 0, 1))
    with pytest.raises(UsageError, match="is moving already"):
        master.begin_move(Move(0, 0, 1))
    with pytest.raises(UsageError, match="group 1 is not moving"):
        master.end_move(1)
    with pytest.raises(SpecError, match="expected 0 to 1"):
        master.begin_move(Move(1, 1, 7))
    node = master.nodes[0]
    with pytest.raises(UsageError, match="does not own group 0; send"):
        node.receive(0, 0, tuples([1], [1]), 1)
    with pytest.raises(UsageError, match="cannot give it away"):
        node.extract(0)
    with pytest.raises(UsageError, match="owns group 1 already"):
        master.nodes[1].create(1)
    with pytest.raises(UsageError, match="owns group 1 already"):
        master.nodes[1].install(1, {})


def test_a_group_moves_with_its_fresh_tuples():
    kernel = Kernel(100, 100)
    group = PartitionGroup(kernel, block=8)
    group.receive(1, tuples([1], [0]), until=0)
    group.step()
    group.receive(0, tuples([1] * 3, [1, 2, 3]), until=3)
    group.receive(0, tuples([1] * 9, range(4, 13), first=3), until=12)
    group._process(0, group._next_block(0).take(slice(4)))  # half a block: the rest of the stream still waits
    assert group._minis[Bucket(0, 0)].windows[0].fresh == 4
    moved = PartitionGroup.unpack(group.pack(), kernel, block=8)
    assert (moved.stored, moved.waiting) == (group.stored, group.waiting) == (5, 4)
    pairs = [pair for each in moved.step() for pair in found(each)]
    assert pairs == [(left, 0) for left in (0, 1, 2, 3, 8, 9, 10, 11)]


def test_a_merge_keeps_the_fresh_tuples_of_both_halves():
    kernel = Kernel(100, 100)
    halves = MiniGroup.empty(4), MiniGroup.empty(4)
    for key, half in enumerate(halves):
        half.add(1, tuples([key], [0], first=key), kernel)
        half.join_fresh(1, kernel)
        half.add(0, tuples([key, key], [1, 2], first=2 * key), kernel)
    merged = halves[0].merged(halves[1])
    assert [(window.count, window.fresh) for window in merged.windows] == [(4, 4), (2, 0)]
    assert found(merged.join_fresh(0, kernel)) == [(0, 0), (1, 0), (2, 1), (3, 1)]
    again = merged.divided(lambda keys: keys == 1)
    assert [[window.count for window in half.windows] for half in again] == [[2, 1], [2, 1]]
