"""``plan_join``: checks what it is given, predicts every sensible setting, and returns the plan."""

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from slidejoin.cores import usable_cores
from slidejoin.errors import SpecError
from slidejoin.index import parse_index
from slidejoin.model import Costs, JoinModel
from slidejoin.model.arguments import as_count, as_number
from slidejoin.plan.choose import Candidate, Targets, breaking_factor, judge, worst_of
from slidejoin.plan.join_plan import JoinPlan, Limit, show_bytes, show_seconds
from slidejoin.plan.predict import Embedded, OnSpark, Prediction, Setting
from slidejoin.plan.sample import measured_selectivity
from slidejoin.plan.workload import Load, Workload, broadcast, make_rates
from slidejoin.predicate import Predicate
from slidejoin.sizes import parse_bytes
from slidejoin.window import Duration, Interval, Window, parse_duration

BATCHES = tuple(4**power for power in range(10))  # 1 to 262,144 rows
TRIGGERS = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)  # seconds
MOST_ROWS = 2**31 - 2**20  # of a side, in one join
MOST_BUCKET_ROWS = 5 * 10**8  # with the bucket-tree
ENGINES = ("embedded", "spark", "any")


def plan_join(
    window: Window,
    left_rate: ArrayLike,
    right_rate: ArrayLike | None = None,
    *,
    selectivity: float | None = None,
    matches: float | None = None,
    sample: tuple[Any, Any] | None = None,
    on: Predicate | None = None,
    interval: float = 1.0,
    latency: Duration = "1s",
    memory: int | float | str | None = None,
    headroom: float = 1.5,
    engine: str = "embedded",
    cores: int | None = None,
    index: str | None = None,
    batch: int | None = None,
    workers: int | None = None,
    rows: bool = True,
    row_bytes: int = 32,
    sources: tuple[int, int] = (1, 1),
    ordered: bool = False,
    costs: Costs | None = None,
) -> JoinPlan:
    """Choose how to run a join before it is deployed, and predict what it will do.

    Parameters
    ----------
    window : Window
        ``rows``, ``within`` or ``interval``.
    left_rate : number or array
        Left rows a second: steady, or a trace with one value for each ``interval`` seconds.
    right_rate : number or array, optional
        Right rows a second; as many as left ones unless given.
    selectivity : float, optional
        The share of pairs that match. Give this, ``matches`` or ``sample``.
    matches : float, optional
        Matches of an arrival in full windows.
    sample : pair of tables, optional
        Rows of both sides to measure the share of pairs by, with the condition ``on``.
    on : Predicate, optional
        The condition of the join, for ``sample``.
    interval : float
        Seconds of one value of a trace.
    latency : duration
        What at most one row in a hundred may take from its arrival to its results.
    memory : int or str, optional
        Most bytes, such as ``"2GB"``.
    headroom : float
        How many times the load the join must bear.
    engine : str
        ``embedded``, ``spark``, or ``any``: Spark where one process is not enough.
    cores : int, optional
        Most workers, or partitions of Spark at a time; as many as this process may use.
    index : str, optional
        The index, if it is decided already.
    batch : int, optional
        The rows of a push, if they are decided already.
    workers : int, optional
        The number of threads, if it is decided already.
    rows : bool
        Whether ``WindowJoin`` runs it, whose results are rows; else ``NumericJoin``.
    row_bytes : int
        Bytes of a stored row.
    sources : (int, int)
        Physical streams of the left and of the right side.
    ordered : bool
        Whether the rows of all sources are joined in the order of time, and wait until all sources have
        passed them.
    costs : Costs, optional
        What things cost; ``Costs.load()`` unless given.

    Returns
    -------
    JoinPlan

    Raises
    ------
    SpecError
        An argument makes no sense.

    Notes
    -----
    Takes some milliseconds: a few hundred settings are predicted, none is run.

    Examples
    --------
    >>> import slidejoin as sj
    >>> from slidejoin.plan import plan_join
    >>> plan = plan_join(sj.rows(1_000_000), left_rate=20_000, matches=2, latency="50ms")
    >>> plan.holds, plan.workers
    (True, 1)
    """
    costs = Costs.load() if costs is None else costs
    if not callable(getattr(costs, "arrival", None)):  # what the planner asks of them
        raise SpecError(f"costs={costs!r}; expected Costs, such as Costs.load('costs.json')")
    notes: list[str] = []
    interval = as_number("interval", interval, "seconds above 0", above=0.0)
    rates = make_rates("left_rate", left_rate)
    other = rates if right_rate is None else make_rates("right_rate", right_rate)
    rates, other = broadcast(rates, other)
    share, how = _selectivity(window, rates, other, selectivity, matches, sample, on)
    notes += how
    workload = Workload(window, rates, other, share, interval)
    targets = _targets(latency, memory, headroom)
    row_bytes = as_count("row_bytes", row_bytes)
    cores = as_count("cores", cores if cores is not None else usable_cores())
    settings = list(_settings(engine, costs, cores, index, batch, workers, rows, workload, notes))
    ready = _ready_wait(workload, sources) if ordered else 0.0
    loads = workload.hardest()
    busiest = max(loads, key=lambda load: load.rate)
    candidates = []
    for each in judge(settings, loads, costs, row_bytes, targets):
        worst = _with_ready(each.worst, ready)
        candidates.append(Candidate(each.setting, worst, targets.margins(worst)))
    embedded = [each for each in candidates if isinstance(each.setting, Embedded)]
    chosen = next(
        (each for group in (embedded, candidates) for each in group if each.holds),
        candidates[0],
    )

    def predicted(setting: Setting, loads: list[Load]) -> Prediction:
        growth = max(load.rate for load in loads) / busiest.rate if busiest.rate else 1.0
        worst = worst_of([setting.predict(load, costs, row_bytes) for load in loads])
        return _with_ready(worst, ready / growth)  # sources that deliver more often wait less

    def breaks(what: str) -> Any:
        def broken(loads: list[Load]) -> bool:
            worst = predicted(chosen.setting, loads)
            if what == "processor":
                return worst.utilisation >= 1
            return targets.margins(worst)[what] < 1

        return broken

    def nothing_holds(loads: list[Load]) -> bool:
        return not any(min(targets.margins(predicted(setting, loads)).values()) >= 1 for setting in settings)

    limits = []
    for what in ("processor", "latency", "memory"):
        factor = breaking_factor(workload, breaks(what))
        limits.append(Limit(what, factor, busiest.left_rate * factor, busiest.right_rate * factor))
    limits.sort(key=lambda limit: limit.factor)
    backlog = _backlog(workload, chosen.setting, costs)
    calm = min((load.rate for load in workload.loads() if load.rate), default=math.inf)
    fills = chosen.setting.batch / calm if isinstance(chosen.setting, Embedded) else 0.0
    if not workload.steady and fills > max(targets.latency, chosen.worst.latency.p99):
        notes.append(f"at {calm:,.3g} rows a second a push takes {fills:.3g} s to fill; push fewer rows then")
    stored = max(max(load.stored) for load in loads)
    if stored > 2 * costs.largest_window:
        notes.append(
            f"windows of {stored:,.0f} rows were not measured, but extrapolated from {costs.largest_window:,}"
        )
    if isinstance(chosen.setting, Embedded) and costs.extrapolates(chosen.setting.workers):
        notes.append(f"the speed-up of {chosen.setting.workers} workers was not measured, but extrapolated")
    return JoinPlan(
        engine="embedded" if isinstance(chosen.setting, Embedded) else "spark",
        index=getattr(chosen.setting, "index", None),
        batch=getattr(chosen.setting, "batch", None),
        workers=getattr(chosen.setting, "workers", None),
        partitions=getattr(chosen.setting, "partitions", None),
        trigger=getattr(chosen.setting, "trigger", None),
        holds=chosen.holds,
        utilisation=chosen.worst.utilisation,
        capacity=chosen.worst.capacity,
        latency=chosen.worst.latency,
        memory=chosen.worst.memory,
        limits=tuple(limits),
        missed=tuple(_missed(chosen, targets)),
        bearable=1.0 if chosen.holds else breaking_factor(workload, nothing_holds, 1.05),
        matches=max(load.matches for load in loads),
        backlog=backlog,
        notes=tuple(notes),
        alternatives=_alternatives(chosen, candidates),
        costs=_origin(costs),
    )


def _selectivity(
    window: Window, left: Any, right: Any,
    selectivity: float | None, matches: float | None, sample: tuple[Any, Any] | None, on: Predicate | None,
) -> tuple[float, list[str]]:  # fmt: skip
    """The share of pairs that match, from what was given, and notes about it."""
    given = [name for name, value in (("selectivity", selectivity), ("matches", matches), ("sample", sample))
             if value is not None]  # fmt: skip
    if len(given) != 1:
        raise SpecError(
            f"{' and '.join(given) or 'nothing'} given; expected one of selectivity, matches, sample"
        )
    if (on is not None) != (sample is not None):
        raise SpecError("a sample is measured by the condition `on`: give both or none")
    if selectivity is not None:
        return as_number("selectivity", selectivity, "above 0 and up to 1", above=0.0, most=1.0), []
    if matches is not None:
        matches = as_number("matches", matches, "more than 0", above=0.0)
        (load,) = Workload(window, left.mean(keepdims=True), right.mean(keepdims=True), 1.0).loads()
        if load.matches == 0:
            raise SpecError("the windows are empty, so that nothing can match; give a rate above 0")
        if matches > load.matches:
            raise SpecError(
                f"matches={matches:g}, but an arrival meets {load.matches:,.0f} rows in the window"
            )
        return matches / load.matches, []
    assert sample is not None
    assert on is not None
    share, found, timed = measured_selectivity(*sample, on, window)
    if found == 0:
        raise SpecError("no rows of the samples match; give larger samples, or the selectivity")
    where = "within the window" if timed else "at any distance: the window or the samples have no timestamps"
    notes = [f"selectivity {share:.3g}, from {found:,} matches of the samples, {where}"]
    if found < 100:
        notes.append(f"{found} matches are few: the selectivity may be wrong by {1 / math.sqrt(found):.0%}")
    return share, notes


def _missed(chosen: Candidate, targets: Targets) -> Iterator[str]:
    """The targets that a plan does not hold, for a reader."""
    worst = chosen.worst
    if chosen.margins["processor"] < 1:
        bears = 1 / worst.utilisation
        yield f"headroom: it bears {bears:.3g} times the load, {targets.headroom:g} times are wanted"
    if chosen.margins["latency"] < 1:
        took, wanted = show_seconds(worst.latency.p99), show_seconds(targets.latency)
        yield f"latency: one row in a hundred takes longer than {took}, {wanted} are wanted"
    if chosen.margins["memory"] < 1:
        yield f"memory: {show_bytes(worst.memory)}, {show_bytes(targets.memory)} are allowed"


def _origin(costs: Costs) -> str:
    cpu = costs.machine.get("cpu", "another machine")
    if costs.measured:
        return f"measured on {cpu}, {costs.date}"
    return f"default ones, measured on {cpu}; run `slidejoin model calibrate` to measure this machine's"


def _targets(latency: Duration, memory: int | float | str | None, headroom: float) -> Targets:
    number, timed = parse_duration(latency)
    if not timed or number <= 0:
        raise SpecError(f"latency {latency!r} is not a positive duration; write '50ms' or '1s'")
    headroom = as_number("headroom", headroom, "1 or more times the load", least=1.0)
    seconds = float(min(Fraction(number), Fraction(10**30))) / 1e9
    return Targets(seconds, math.inf if memory is None else parse_bytes(memory), headroom)


def _settings(
    engine: str, costs: Costs, cores: int, index: str | None, batch: int | None, workers: int | None,
    rows: bool, workload: Workload, notes: list[str],
) -> Iterator[Setting]:  # fmt: skip
    """Every setting that is worth a look."""
    if engine not in ENGINES:
        raise SpecError(f"engine={engine!r}; expected one of {', '.join(ENGINES)}")
    if engine == "spark" and any(each is not None for each in (index, batch, workers)):
        raise SpecError(
            "index, batch and workers are for the embedded join; Spark has partitions and a trigger"
        )
    counts = sorted({min(2**power, cores) for power in range(cores.bit_length() + 1)})
    if engine != "spark":
        name, parameters = parse_index(index) if index is not None else (None, None)
        if parameters:
            raise SpecError(f"index={index!r}; costs are known without parameters: give index={name!r}")
        if name is not None and name != "auto" and name not in costs.indexes:
            raise SpecError(f"there are no costs of {name}; they exist for {', '.join(costs.indexes)}")
        stored = max(max(load.stored) for load in workload.hardest())
        if stored > MOST_ROWS:
            raise SpecError(
                f"{workload.window!r} holds {stored:,.0f} rows of a side at these rates; a join holds "
                f"{MOST_ROWS:,} at most: choose a shorter window, or engine='spark'"
            )
        indexes = costs.indexes if name in (None, "auto") else (name,)
        if stored > MOST_BUCKET_ROWS and name != "bucket-tree":
            indexes = tuple(each for each in indexes if each != "bucket-tree")
        for each in indexes:
            for size in BATCHES if batch is None else (as_count("batch", batch),):
                for threads in counts if workers is None else (as_count("workers", workers),):
                    yield Embedded(each, size, threads, rows, not isinstance(workload.window, Interval))
    if engine != "embedded":
        if not isinstance(workload.window, Interval):
            message = f"Spark joins interval(...) windows of event time only, not {workload.window!r}"
            if engine == "spark":
                raise SpecError(f"{message}; plan for such a window")
            notes.append(message)
        elif costs.spark is None:
            raise SpecError("there are no costs of Spark; measure them: slidejoin model calibrate --spark")
        else:
            if "spark_from" in costs.machine:
                notes.append("costs of Spark were not measured here: slidejoin model calibrate --spark")
            for trigger in TRIGGERS:
                for partitions in counts:
                    yield OnSpark(trigger, partitions)


def _ready_wait(workload: Workload, sources: tuple[int, int]) -> float:
    """Mean seconds until a row of several sources is ready, in the interval where it is longest."""
    if not isinstance(sources, tuple | list) or len(sources) != 2:
        raise SpecError(f"sources={sources!r}; expected how many there are of the left and the right side")
    streams = [as_count("sources", count, 2**16) for count in sources]
    interval = workload.interval
    if workload.steady:  # long enough for many rows of the slowest source
        totals = (workload.left_rates[0], workload.right_rates[0])
        rates = [total / count for total, count in zip(totals, streams, strict=True) if total]
        slowest = min(rates, default=1.0)
        interval = max(interval, 1000 / slowest)
    model = JoinModel(
        window=workload.window, alpha=1e-9, beta=1e-9, selectivity=workload.selectivity, deterministic=True,
        left_streams=streams[0], right_streams=streams[1], interval=interval, exact=True,
    )  # fmt: skip
    waits = np.asarray(model.run(workload.left_rates, workload.right_rates)["latency_in"])
    return float(waits.max())


def _with_ready(worst: Prediction, ready: float) -> Prediction:
    """The same with the wait until a row is ready."""
    return replace(worst, latency=replace(worst.latency, ready=ready))


def _backlog(workload: Workload, setting: Setting, costs: Costs) -> float:
    """The longest wait of a trace for work that was carried over, in seconds: first in, first out."""
    if workload.steady:
        return 0.0
    carried, longest = 0.0, 0.0
    for load in workload.loads():
        carried = max(0.0, carried + (setting.predict(load, costs, 0).utilisation - 1) * workload.interval)
        longest = max(longest, carried)
    return longest


def _alternatives(chosen: Candidate, candidates: list[Candidate]) -> tuple[tuple[str, float], ...]:
    """Rows a second with every other index, the rest as chosen; the fastest first."""
    mine = chosen.setting
    if not isinstance(mine, Embedded):
        return ()
    others = {
        each.setting.index: each.worst.capacity
        for each in candidates
        if isinstance(each.setting, Embedded)
        and (each.setting.batch, each.setting.workers) == (mine.batch, mine.workers)
        and each.setting.index != mine.index
    }
    return tuple(sorted(others.items(), key=lambda each: -each[1]))
