"""The policies of a cluster: no group is lost or owned twice, sizes have bounds, nothing flaps."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slidejoin.cluster.declustering import Declustering, degree
from slidejoin.cluster.extendible import Bucket, Directory, tuned
from slidejoin.cluster.hot import Grid, cut, spread
from slidejoin.cluster.load import CONSUMER, SUPPLIER, Move, average_occupancy, chosen_group, pairs, roles
from slidejoin.cluster.ownership import dealt, drained, moved, owned
from slidejoin.cluster.reorganise import Policy, reorganised
from slidejoin.errors import SpecError

LOADS = st.lists(st.floats(0, 5), min_size=1, max_size=12)


# --- Roles and pairs ---


@given(LOADS, st.floats(0.02, 0.99), st.floats(0, 0.019))
def test_roles_follow_the_thresholds(loads, supplier, consumer):
    for load, role in zip(loads, roles(loads, supplier, consumer), strict=True):
        assert (role == SUPPLIER) == (load > supplier)
        assert (role == CONSUMER) == (load < consumer)


@given(LOADS)
def test_a_node_is_in_one_pair_at_most_and_the_heaviest_are_served_first(loads):
    role = roles(loads)
    found = pairs(loads, role)
    nodes = [node for pair in found for node in pair]
    assert len(nodes) == len(set(nodes))
    assert len(found) == min((role == SUPPLIER).sum(), (role == CONSUMER).sum())
    assert all(role[s] == SUPPLIER and role[c] == CONSUMER for s, c in found)
    left_out = set(np.flatnonzero(role == SUPPLIER)) - {s for s, _ in found}
    assert all(loads[s] >= loads[other] for s, _ in found for other in left_out)


def test_load_is_the_mean_of_the_epoch():
    np.testing.assert_allclose(average_occupancy([[10, 0], [30, 8]], 100), [0.2, 0.04])


def test_the_group_nearest_to_half_the_surplus_moves():
    loads = np.array([0.1, 0.35, 0.6, 0.9])
    assert chosen_group([0, 1, 2, 3], loads, surplus=0.8) == 1
    assert chosen_group([0, 3], loads, surplus=0.8) == 0
    assert chosen_group([3], loads, surplus=0.8) is None  # it would only swap the roles
    assert chosen_group([], loads, surplus=0.8) is None


def test_a_random_group_is_one_of_the_suppliers():
    random = np.random.default_rng(5)
    found = {chosen_group([2, 5, 9], np.zeros(10), 0.5, "random", random) for _ in range(60)}
    assert found == {2, 5, 9}


# --- Ownership ---


@given(st.integers(1, 60), st.integers(1, 9))
def test_groups_are_dealt_evenly(groups, nodes):
    counts = np.bincount(dealt(groups, range(nodes)), minlength=nodes)
    assert counts.sum() == groups
    assert counts.max() - counts.min() <= 1


@given(st.data())
def test_a_node_that_leaves_keeps_nothing(data):
    nodes = data.draw(st.integers(2, 6))
    owners = np.array(data.draw(st.lists(st.integers(0, nodes - 1), min_size=1, max_size=30)))
    weights = np.array(data.draw(st.lists(st.floats(0, 1), min_size=len(owners), max_size=len(owners))))
    loads = np.array([weights[owners == node].sum() for node in range(nodes)])
    moves = drained(owners, 0, list(range(1, nodes)), loads, weights)
    after = moved(owners, moves)
    assert owned(after, 0) == []
    kept = owners != 0
    np.testing.assert_array_equal(after[kept], owners[kept])
    after_loads = [weights[after == node].sum() for node in range(1, nodes)]
    heaviest_piece = weights[owners == 0].max(initial=0)
    highest = max(
        after_loads
    )  # greedy: no node ends further above another than one piece, unless it began so
    assert highest <= max(loads[1:].max(), min(after_loads) + heaviest_piece) + 1e-9


@given(st.data(), st.booleans(), st.sampled_from(["load", "random"]))
def test_no_group_is_lost_or_moves_twice(data, adaptive, choice):
    nodes = data.draw(st.integers(1, 8))
    active = sorted(data.draw(st.sets(st.integers(0, nodes - 1), min_size=1)))
    owners = np.array(data.draw(st.lists(st.sampled_from(active), min_size=1, max_size=40)))
    loads = np.array(data.draw(st.lists(st.floats(0, 3), min_size=nodes, max_size=nodes)))
    weights = loads[owners] / np.bincount(owners, minlength=nodes)[owners]
    policy = Policy(choice=choice, adaptive=adaptive)
    decision = reorganised(
        policy, owners, loads, weights, active, list(range(nodes)), np.random.default_rng(1)
    )
    assert len({move.group for move in decision.moves}) == len(decision.moves)
    after = moved(owners, decision.moves)
    assert len(after) == len(owners)
    assert set(after) <= set(decision.active)
    assert abs(len(decision.active) - len(active)) <= adaptive
    if len(decision.active) >= len(active):
        sources = [move.source for move in decision.moves]
        targets = [move.target for move in decision.moves]
        assert len(set(sources)) == len(sources)
        assert len(set(targets)) == len(targets)
        assert all(loads[node] > policy.supplier_threshold for node in sources)
        assert all(loads[node] < policy.consumer_threshold for node in targets)


@given(st.lists(st.floats(0, 0.3), min_size=4, max_size=40), st.integers(2, 6), st.randoms())
def test_moves_by_load_converge_under_steady_load(weights, nodes, random):
    """Group loads stay as they are; node loads are their sums. Every move lowers the sum of squares."""
    weights = np.array(weights)
    owners = np.array([random.choice([0, 0, random.randrange(nodes)]) for _ in weights])
    everyone = list(range(nodes))
    before = np.inf
    for _ in range(200):
        loads = np.array([weights[owners == node].sum() for node in everyone])
        energy = (loads**2).sum()
        assert energy < before
        decision = reorganised(Policy(), owners, loads, weights, everyone, everyone)
        if not decision.moves:
            break
        before = energy
        owners = moved(owners, decision.moves)
    else:
        pytest.fail("groups still move after 200 epochs")
    again = reorganised(Policy(), owners, loads, weights, everyone, everyone)
    assert not again.moves


# --- The degree of declustering ---


def test_degree_by_the_rule_of_the_paper():
    assert degree(0, 4, 4, 8) == 3
    assert degree(0, 1, 1, 8) == 1
    assert degree(3, 1, 4, 8) == 5
    assert degree(1, 2, 4, 8) == 4  # 1 is not more than half of 2
    assert degree(2, 3, 8, 8) == 8
    assert degree(2, 3, 5, 8) == 6


@given(st.integers(1, 12), st.integers(1, 12))
def test_degree_does_not_flap_under_steady_load(needed, start):
    """With too few nodes all are suppliers, else all consumers: the paper's rule alternates."""

    def changes(rule, epochs=200):
        active, count = start, 0
        for _ in range(epochs):
            loaded = active if active < needed else 0
            rule, after = rule.step(loaded, 0 if loaded else active, active, 12)
            count += after != active
            active = after
        return active, count

    active, count = changes(Declustering())
    assert active in (needed, max(needed - 1, 1))
    assert count <= 12 + 2 * 9  # the way there, and a try after 1, 2, 4, … epochs
    _, restless = changes(Declustering(adaptive=False))
    assert needed == 1 or restless > 150


# --- Extendible hashing ---

# Few hashes that are shrunk well, or many, so that buckets split.
HASHES = st.lists(st.integers(0, 2**16 - 1), max_size=30) | st.builds(
    lambda seed, count: np.random.default_rng(seed).integers(0, 2**16, count).tolist(),
    st.integers(0, 99),
    st.integers(20, 200),
)


def sizes(hashes):
    return lambda bucket: sum(map(bucket.holds, hashes))


@given(HASHES, HASHES, st.integers(1, 20))
@example(first=[0, 0, 0, 1, 1, 1], second=[0], theta=1)  # a buddy that is merged late
def test_buckets_stay_within_bounds(first, second, theta):
    directory = tuned(Directory(), sizes(first), theta)
    directory = tuned(directory, sizes(second), theta)  # other data: splits and merges
    for bucket in directory.buckets:
        size = sizes(second)(bucket)
        assert size <= 2 * theta or bucket.depth == 16
        if size < theta and bucket.buddy in directory.buckets:
            assert size + sizes(second)(bucket.buddy) >= 2 * theta
    assert tuned(directory, sizes(second), theta) == directory  # and nothing flaps
    assert len(directory.table) == 2**directory.depth
    for hashed in second[:20]:
        assert [each for each in directory.buckets if each.holds(hashed)] == [directory.find(hashed)]


@given(st.lists(st.integers(0, 30), max_size=12))
def test_a_merge_takes_a_split_back(choices):
    directory, steps = Directory(), []
    for choice in choices:
        bucket = directory.buckets[choice % len(directory.buckets)]
        steps.append((bucket, directory))
        directory = directory.split(bucket)
    for bucket, before in reversed(steps):
        for half in bucket.halves:
            assert half.buddy in bucket.halves
            assert half.parent == bucket
        directory = directory.merge(bucket.halves[1])
        assert directory == before


def test_suffix_bits_make_the_buddies():
    directory = Directory().split(Bucket(0, 0)).split(Bucket(1, 0))
    assert directory.depth == 2
    assert directory.find(0b0110) == Bucket(2, 0b10)
    assert directory.find(0b0111) == Bucket(1, 1)
    assert Bucket(2, 0b10).buddy == Bucket(2, 0b00)
    with pytest.raises(SpecError, match="no buddy in the directory"):
        directory.merge(Bucket(1, 1))


# --- Hot ranges and hot keys ---


@given(st.lists(st.integers(0, 10**6), min_size=8, max_size=300), st.integers(2, 8))
def test_cut_balances_ranges(keys, parts):
    keys = np.sort(np.array(keys, dtype=float)) + np.arange(len(keys)) * 1e-3
    borders = np.linspace(0, 2e6, parts + 1)[1:-1]
    for _ in range(25):
        at = np.searchsorted(borders, keys)
        rows = [keys[at == part] for part in range(parts)]
        counts = [len(part) for part in rows]
        ends = [(part[0], part[-1]) if len(part) else (0, 0) for part in rows]
        borders = cut(counts, *zip(*ends, strict=True))
        assert (np.diff(borders) >= 0).all()
        assert keys[0] <= borders[0]
        assert borders[-1] <= keys[-1]
    assert max(counts) <= max(3 * len(keys) / parts, 8)


def test_cut_interpolates_from_the_least_key():
    np.testing.assert_allclose(cut([4, 4], [10, 50], [20, 90]), [20])
    np.testing.assert_allclose(cut([8, 0], [10, 0], [50, 0], parts=4), [20, 30, 40])
    np.testing.assert_allclose(cut([1, 0, 3], [0, 9, 100], [10, 9, 130], parts=2), [110])


@given(st.integers(1, 7), st.integers(1, 7), st.integers(0, 50), st.integers(0, 50))
def test_each_pair_of_a_hot_key_meets_in_one_cell(rows, columns, left, right):
    grid = Grid(rows, columns)
    assert len(set(grid.left(left)) & set(grid.right(right))) == 1
    assert max([*grid.left(left), *grid.right(right)]) < grid.cells


@given(st.integers(0, 5000), st.integers(0, 5000), st.integers(1, 10**6))
def test_the_grid_is_large_enough_and_the_cheapest(left, right, capacity):
    grid = spread(left, right, capacity, most_cells=64)
    needed = min(64, max(1, -(-left * right // capacity)))
    assert needed <= grid.cells <= 64
    best = min(
        left * columns + right * rows
        for rows in range(1, 65) for columns in range(1, 65) if needed <= rows * columns <= 64
    )  # fmt: skip
    assert left * grid.columns + right * grid.rows == best


# --- Bad settings ---


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: roles([0.1], 0.2, 0.3), "consumer < supplier < 1"),
        (lambda: roles([0.1], 1.5, 0.3), "consumer < supplier < 1"),
        (lambda: roles([-1.0]), "negative number or NaN"),
        (lambda: roles([np.nan]), "negative number or NaN"),
        (lambda: average_occupancy([[1]], 0), "capacity 0"),
        (lambda: average_occupancy(np.empty((0, 3)), 5), "no samples"),
        (lambda: chosen_group([1], [0, 1], 1, "heavy"), "choice 'heavy'; expected load or random"),
        (lambda: chosen_group([1], [0, 1], 1, "random"), "needs a generator"),
        (lambda: Policy(choice="lod"), "did you mean 'load'"),
        (lambda: Policy(supplier_threshold=0), "supplier_threshold 0"),
        (lambda: dealt(0, [1]), "groups 0"),
        (lambda: dealt(3, []), "no nodes"),
        (lambda: moved([0, 1], [Move(0, 1, 0)]), "node 0 owns this group"),
        (lambda: moved([0, 1], [Move(2, 1, 0)]), "not there; expected 0 to 1"),
        (lambda: moved([0, 1], [Move(0, 0, 0)]), "does not move anything"),
        (lambda: drained([0, 1], 0, [0, 1], [0, 0], [0, 0]), "expected other nodes"),
        (lambda: degree(0, 0, 0, 4), "0 active nodes of 4"),
        (lambda: degree(0, 0, 1, 4, beta=1.5), "beta 1.5"),
        (lambda: degree(3, 3, 4, 4), "count each node once"),
        (lambda: Declustering(patience=0), "patience 0"),
        (lambda: Bucket(1, 2), "bits are below"),
        (lambda: Directory((Bucket(1, 0),)), "do not cover each hash once"),
        (lambda: Directory((Bucket(1, 0), Bucket(1, 0))), "do not cover each hash once"),
        (lambda: Directory().split(Bucket(1, 0)), "is not in the directory"),
        (lambda: tuned(Directory(), len, 0), "theta 0"),
        (lambda: tuned(Directory(), len, 1, 99), "most_depth 99"),
        (lambda: cut([1], [0, 1], [1]), "1 counts, 2 least and 1 greatest"),
        (lambda: cut([0], [0], [1]), "all 0"),
        (lambda: cut([1, 1], [0, 3], [5, 9]), "ranges overlap"),
        (lambda: cut([1], [0], [1], 0), "parts 0"),
        (lambda: spread(-1, 2, 3), "left -1"),
        (lambda: spread(1, 2, 0), "pairs_capacity 0"),
    ],
)  # fmt: skip
def test_refused(call, message):
    with pytest.raises(SpecError, match=message):
        call()
