"""The simulator: conservation, determinism, limits, and agreement with the join of real tuples."""

import dataclasses
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slidejoin.cluster.costs import ClusterCosts
from slidejoin.cluster.master import Master
from slidejoin.cluster.settings import Settings
from slidejoin.cluster.simulation import Simulation, simulate
from slidejoin.cluster.workload import BModel
from slidejoin.errors import SpecError

SMALL = Settings(
    rate=100, nodes=3, seconds=120, warmup=60, window=40, groups=12, keys=500, reorganisation_epoch=8,
    theta=20_000,
)  # fmt: skip
LONG = os.environ.get("SLIDEJOIN_TESTS") == "long"
DETAILS = ("tuples", "counts")
both = pytest.mark.parametrize("detail", DETAILS)


def changed(**how):
    return dataclasses.replace(SMALL, **how)


def costs(**how):
    return dataclasses.replace(ClusterCosts.paper(), **how)


def slow(factor):
    """Costs with which SMALL needs so many times the work."""
    return costs(comparison=0.0, tuple_=3 / 200 * factor, match=0.0)


def share(seconds, result):
    return float(seconds.sum() / result.present.sum())


# --- Always ---


@given(st.data())
@settings(max_examples=300 if LONG else 8)
def test_tuples_in_are_joined_expired_or_held(data):
    draw = data.draw
    events = st.tuples(st.floats(0, 120), st.integers(1, 3))
    case = changed(
        nodes=4,
        detail=draw(st.sampled_from(DETAILS)),
        moves=draw(st.sampled_from(("network", "files"))),
        choice=draw(st.sampled_from(("load", "random"))),
        costs=slow(draw(st.sampled_from((0.1, 0.8, 1.5)))),
        adaptive=draw(st.booleans()),
        fixed_order=draw(st.booleans()),
        slots=draw(st.integers(1, 4)),
        speeds=(1.0, draw(st.sampled_from((0.3, 1.0, 2.0)))),
        failures=tuple(draw(st.lists(events, max_size=2))),
        background=((30.0, 0, draw(st.sampled_from((0.0, 0.8)))),),
        hot_share=draw(st.sampled_from((0.0, 0.2))),
        rates=((60.0, draw(st.sampled_from((20.0, 300.0)))),),
        seed=draw(st.integers(0, 99)),
    )
    result = simulate(case)
    assert result.lost_tuples() == pytest.approx(0, abs=1e-6 if case.detail == "counts" else 0)
    assert all(number >= -1e-6 for number in result.tuples.values())
    assert result.tuples["lost"] == 0 or (case.failures and case.moves == "network")
    assert (result.present <= 60 + 1e-6).all()
    assert (result.cpu >= 0).all()
    assert (result.timeline["active"] >= 1).all()


@both
def test_the_same_seed_gives_the_same_run(detail):
    case = changed(detail=detail, choice="random", costs=slow(0.6), speeds=(1.0, 0.2), buffer_bytes=6400)
    first, again = simulate(case), simulate(case)
    assert first.to_json() == again.to_json()
    for name, column in first.timeline.items():
        np.testing.assert_array_equal(column, again.timeline[name])
    assert first.moves > 0
    assert simulate(dataclasses.replace(case, seed=2)).to_json() != first.to_json()


def test_matches_are_those_of_the_real_join():
    """The same arrivals, joined by a master and nodes: as many results as the simulator counts."""
    simulation = Simulation(changed(detail="tuples", keys=60, rate=15, moves="files", failures=((50, 1),)))
    load = simulation._load
    chunks, add = [], load._add_to_window
    load._add_to_window = lambda chunk: (chunks.append(chunk), add(chunk))
    simulation.run()
    waiting = [*load._master, *(each for queue in load._queues for each in queue)]
    counted = simulation._tally.all_outputs + sum(each.matches.sum() for each in waiting)
    master = Master(40 * 10**9, nodes=2, groups=5, block=16)
    pairs = 0
    for chunk in chunks:
        master.arrive(chunk.side, chunk.key, (chunk.time * 1e9).astype(np.int64))
        master.distribute()
        pairs += len(master.work().left)
    assert counted == pairs > 10_000


@both
def test_numbers_and_tuples_agree(detail):
    """Without the other form: by hand. 600 s of 2 · 100 tuples a second, all with the same cost."""
    result = simulate(changed(seconds=400, costs=slow(0.5), detail=detail))
    assert share(result.cpu, result) == pytest.approx(0.5, rel=0.03)
    expected = 100 * BModel(500, 0.7).shares_by_key() ** 2
    assert result.outputs == pytest.approx(2 * 100 * 340 * 40 * expected.sum(), rel=0.05)
    # Half of an epoch at the master, half of the work of an epoch, which is half of one; messages.
    assert result.delay == pytest.approx(1 + 0.5 + 0.006, rel=0.03)


# --- Limits ---


@both
def test_without_tuples_nodes_are_idle(detail):
    result = simulate(changed(rate=0, detail=detail, costs=costs(message=0)))
    assert (result.outputs, result.saturated) == (0, None)
    assert np.isnan(result.delay)
    assert share(result.idle, result) == pytest.approx(1)


@both
def test_one_node_does_everything(detail):
    result = simulate(changed(nodes=1, costs=slow(0.3), detail=detail))
    assert share(result.cpu, result) == pytest.approx(0.9, rel=0.04)
    assert result.saturated is None


@both
def test_overload_is_told_and_delays_grow_without_bound(detail):
    fine = simulate(changed(costs=slow(0.9), detail=detail, seconds=200))
    assert (fine.saturated, fine.overloaded) == (None, [])
    result = simulate(changed(costs=slow(1.5), detail=detail, seconds=200))
    assert (result.saturated, result.overloaded) == ("nodes", [0, 1, 2])
    assert share(result.idle, result) < 0.01
    delays = result.timeline["delay"]
    assert delays[-1] > delays[len(delays) // 2] + 5 > fine.delay + 5


@both
@pytest.mark.parametrize(
    ("how", "what"),
    [
        ({"costs": costs(ingest=0.01)}, "master"),
        ({"costs": costs(message=0.9)}, "master"),
        ({"costs": costs(bandwidth=9_000.0, message=0)}, "network"),
        ({"hot_share": 0.5, "costs": slow(0.9), "choice": "load"}, "one group"),
    ],
)
def test_what_saturates(detail, how, what):
    assert simulate(changed(detail=detail, **how)).saturated == what


@both
def test_several_masters_share_the_distribution(detail):
    how = {"detail": detail, "costs": costs(ingest=0.009), "seconds": 200}
    assert simulate(changed(**how)).saturated == "master"
    result = simulate(changed(**how, masters=2))
    assert result.saturated is None
    assert result.master_busy < 1


# --- The master's buffer ---


@pytest.mark.parametrize("slots", [1, 2, 5, 10])
def test_buffer_of_the_master_follows_the_formula(slots):
    case = Settings(
        rate=5000, nodes=10, groups=1000, keys=10**6, skew=0.5, seconds=30, warmup=10, window=20,
        slots=slots, detail="counts", costs=costs(tuple_=1e-6, comparison=0),
    )  # fmt: skip
    formula = 5000 * 2 / 2 * (1 + 1 / slots)  # (r · t_d / 2) (1 + 1 / n_g)
    assert simulate(case).peak_buffer == pytest.approx(formula, rel=0.03)


def test_slots_let_nodes_wait_less():
    case = Settings(rate=2000, nodes=8, seconds=60, warmup=30, window=30, detail="counts", keys=10**5)
    serial = simulate(case)
    in_slots = simulate(dataclasses.replace(case, slots=4))
    in_order = simulate(dataclasses.replace(case, fixed_order=True))
    assert in_slots.communication.sum() < 0.5 * serial.communication.sum()
    assert in_order.communication.sum() < 0.5 * serial.communication.sum()
    assert np.ptp(serial.communication) > 5 * np.ptp(in_order.communication)


# --- Balancing ---


@both
@pytest.mark.parametrize("moves", ["network", "files"])
def test_groups_leave_a_slow_node(detail, moves):
    case = changed(
        detail=detail, moves=moves, seconds=400, costs=slow(0.6), buffer_bytes=64 * 200,
        background=((0.0, 0, 0.7),),
    )  # fmt: skip
    result = simulate(case)
    assert 1 <= result.moves <= 6
    assert result.saturated is None
    left_alone = simulate(dataclasses.replace(case, supplier_threshold=0.999, buffer_bytes=1 << 40))
    assert left_alone.saturated == "nodes"
    assert left_alone.overloaded == [0]
    assert result.delay < left_alone.delay / 2


def test_moves_by_files_block_less():
    how = {"seconds": 300, "costs": slow(0.6), "buffer_bytes": 64 * 200, "background": ((61.0, 0, 0.7),)}
    sent, read = (simulate(changed(**how, moves=moves)) for moves in ("network", "files"))
    assert sent.moves > 0 < read.moves
    assert sent.moving[0] > 0 == read.moving[0]  # the old node has nothing to do
    assert read.moving.sum() / read.moves < sent.moving.sum() / sent.moves


@both
def test_degree_of_declustering_follows_the_rate(detail):
    # An epoch brings 400 tuples; nodes have room for 100 of them in their buffers.
    case = changed(
        nodes=6, first_nodes=6, adaptive=True, seconds=900, warmup=300, detail=detail, costs=slow(0.5),
        buffer_bytes=64 * 100, rates=((600.0, 250.0),), patience=2,
    )  # fmt: skip
    result = simulate(case)
    active = result.timeline["active"]
    quiet, busy = active[150:300], active[400:]
    assert quiet.mean() < 4.5  # of 6; 1.5 are busy all the time
    assert busy.mean() > quiet.mean() + 0.5
    fixed = simulate(dataclasses.replace(case, adaptive=False))
    assert result.communication.sum() < 0.9 * fixed.communication.sum()


@both
def test_a_failed_node_loses_its_state_unless_it_is_in_files(detail):
    how = {"detail": detail, "costs": slow(0.4), "failures": ((70.0, 1),)}
    lost = simulate(changed(**how))
    kept = simulate(changed(**how, moves="files"))
    whole = simulate(changed(**how | {"failures": ()}))
    assert lost.tuples["lost"] == pytest.approx(100 * 2 * 40 / 3, rel=0.35)  # a third of the windows
    assert kept.tuples["lost"] == whole.tuples["lost"] == 0
    assert kept.outputs == pytest.approx(whole.outputs, rel=0.05)
    assert lost.outputs < 0.95 * whole.outputs
    assert kept.moves == 4
    assert lost.present[1] == pytest.approx(10, abs=0.1)


@both
def test_a_node_that_arrives_takes_groups_over(detail):
    how = {"nodes": 4, "detail": detail, "costs": slow(1.1), "seconds": 400, "buffer_bytes": 64 * 100}
    without = simulate(changed(**how, arrivals=((399.0, 3),)))
    result = simulate(changed(**how, arrivals=((30.0, 3),)))
    assert without.saturated == "nodes"
    assert result.cpu[3] > 100
    assert result.delay < without.delay / 2


def test_tuning_makes_scans_shorter():
    tuned, whole = (
        simulate(changed(tuned=tuned, costs=costs(comparison=1e-5, tuple_=0), theta=5e3))
        for tuned in (True, False)
    )
    assert tuned.cpu.sum() < 0.8 * whole.cpu.sum()


# --- Bad settings ---


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"rate": -1}, "rate -1"),
        ({"nodes": 0}, "nodes 0"),
        ({"nodes": 2.5}, "nodes 2.5"),
        ({"groups": 0}, "groups 0"),
        ({"window": 0}, "window 0"),
        ({"warmup": 120}, "nothing is left to measure"),
        ({"reorganisation_epoch": 1}, "reorganisation_epoch 1 below distribution_epoch 2"),
        ({"distribution_epoch": 1e-9}, "make distribution_epoch longer"),
        ({"skew": 0.4}, "skew 0.4"),
        ({"hot_share": 2}, "hot_share 2"),
        ({"slots": 4}, "slots 4 for 3 nodes"),
        ({"keys": 2**30}, "keys 1073741824"),
        ({"keys": 2**27, "detail": "tuples"}, "with detail='tuples'"),
        ({"block_bytes": 32}, "hold no tuple"),
        ({"moves": "file"}, "did you mean 'files'"),
        ({"detail": "all"}, "detail 'all'; expected tuples or counts or auto"),
        ({"choice": "big"}, "choice 'big'"),
        ({"supplier_threshold": 0.001}, "consumer < supplier < 1"),
        ({"beta": 1.0}, "beta 1.0"),
        ({"patience": 0}, "patience 0"),
        ({"first_nodes": 4}, "first_nodes 4 of 3"),
        ({"speeds": ()}, "speeds are empty"),
        ({"speeds": (0,)}, "speeds 0"),
        ({"background": ((1, 0, 1.0),)}, "background load 1.0"),
        ({"failures": ((1, 3),)}, "node 3 of 3"),
        ({"failures": ((-1, 0),)}, "time of a node's event -1"),
        ({"failures": ((1, 0), (2, 1)), "arrivals": ((5, 2),)}, "one must be there throughout"),
        ({"rates": ((5, -1),)}, "rates -1"),
        ({"seed": -1}, "seed -1"),
        ({"theta": 0}, "theta 0"),
        ({"hot_cells": 13, "detail": "counts"}, "hot_cells 13 of 12 groups"),
        ({"hot_cells": 2, "detail": "tuples"}, "detail='counts'"),
    ],
)
def test_refused(how, message):
    with pytest.raises(SpecError, match=message):
        changed(**how)


def test_refused_costs():
    with pytest.raises(SpecError, match="bandwidth 0; expected bytes a second"):
        costs(bandwidth=0)
    with pytest.raises(SpecError, match="match -1; expected seconds"):
        costs(match=-1)
