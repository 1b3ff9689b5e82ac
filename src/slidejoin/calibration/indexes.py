"""Measures what an arrival costs with an index, and what it costs to list its matches."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from slidejoin.calibration.runs import Figure, Stream
from slidejoin.model.costs import IndexCosts, moved_entries
from slidejoin.model.surface import Surface, rising

_LEAST = 1e-10  # seconds: differences of measurements may come out negative


@dataclass(frozen=True)
class Effort:
    """How much is measured: the sizes of windows, batches and matches, and how often."""

    windows: tuple[int, ...] = (2**12, 2**15, 2**18, 2**20)
    loops: tuple[int, ...] = (2**9, 2**12, 2**15)  # windows of the nested loop
    batches: tuple[int, ...] = (1, 16, 256, 2048, 16384, 131072)
    scanned_batches: tuple[int, ...] = (16, 2048, 131072)
    matches: tuple[int, ...] = (32, 512)
    listed: tuple[int, ...] = (1, 8, 16, 32, 64, 128, 1024)
    middle: int = 2**16  # window where inserts are measured by themselves
    turns: int = 5  # that each size gets
    least: int = 2**16  # arrivals of a measurement, at least
    singles: int = 2**11  # arrivals of a turn that are pushed one by one
    pairs: int = 2**18  # listed in a turn
    small_result: int = 2**16  # pairs of a push that stay in a cache
    results: tuple[int, ...] = (2**18, 2**20, 2**21, 2**22)  # pairs of larger pushes


# What is left out first where there is little time.
EFFORTS = (
    Effort(),
    Effort(turns=3),
    Effort(windows=(2**12, 2**15, 2**18), turns=4),
    Effort(
        windows=(2**10, 2**14), loops=(2**8, 2**11), batches=(1, 16, 256, 2048), scanned_batches=(16, 2048),
        listed=(1, 16, 64, 128), middle=2**13, turns=3, least=2**13, singles=2**8, pairs=2**14,
        results=(2**18,),
    ),
    Effort(
        windows=(2**8, 2**11), loops=(2**6, 2**9), batches=(1, 16, 256), scanned_batches=(16, 256),
        matches=(16, 64), listed=(1, 16, 64), middle=2**9, turns=2, least=2**9, singles=2**5, pairs=2**10,
        small_result=2**12, results=(2**14,),
    ),
)  # fmt: skip


def measure_index(
    name: str, effort: Effort, count_call: float, push_call: float, tick: Callable[[], None]
) -> IndexCosts:
    """The costs of an index; ``tick`` is called after each window.

    Matches are counted, which disturbs the least. A nested loop and bi-sort are faster when they only count,
    so their base is measured while they list. Joins are not plain, and the bucket-tree's base is measured for
    plain ones, too.
    """
    listed = name in ("nested-loop", "bi-sort")
    call = push_call if listed else count_call
    if name == "nested-loop":
        effort = replace(effort, windows=effort.loops, least=2**10, singles=2**7, batches=(1, 16, 256))
        effort = replace(effort, scanned_batches=(16, 256), matches=effort.matches[:1])
    copy = _copy(name, effort)
    base, plain, memory, spreads = [], [], [], []
    scans: dict[int, list[list[float]]] = {matches: [] for matches in effort.matches}
    for window in effort.windows:
        stream = Stream(name, window, plain=False)
        arrivals = max(2 * window, effort.least)
        figures = _in_turns(stream, effort, effort.batches, arrivals, listed)
        counted = _in_turns(stream, effort, effort.scanned_batches, arrivals // 4) if listed else figures
        stream.time(effort.least, 16)
        memory.append([stream.bytes_per_tuple])
        spreads += [figure.spread for figure in figures.values()]
        base.append([_net(name, window, batch, figure, copy, call) for batch, figure in figures.items()])
        if name == "bucket-tree":
            figures = _in_turns(Stream(name, window), effort, effort.batches, arrivals)
            plain.append([_net(name, window, batch, each, copy, call) for batch, each in figures.items()])
        for matches in effort.matches:
            if name == "nested-loop":  # all entries are compared, whether they match or not
                scans[matches].append([_LEAST] * len(effort.scanned_batches))
                continue
            few = min(matches, window // 4)
            many = _in_turns(
                Stream(name, window, few, plain=False), effort, effort.scanned_batches, arrivals // 4
            )
            scans[matches].append(
                [
                    max((figure.median - counted[batch].median) * matches / few, _LEAST)
                    for batch, figure in many.items()
                ]
            )
        tick()
    surface = Surface(effort.windows, effort.batches, rising(base))
    return IndexCosts(
        base=surface,
        one_pass=Surface(effort.windows, effort.batches, rising(plain)) if plain else None,
        insert_share=_insert_share(name, effort, copy, count_call, surface),
        copy=copy,
        counted=_counted(name, effort, call, count_call) if listed else 1.0,
        scan=_segments(effort, scans),
        memory=Surface(effort.windows, [1], memory),
        spread=float(np.median(spreads)),
    )


def _net(name: str, window: int, batch: int, figure: Figure, copy: float, count_call: float) -> float:
    """Search and insert of an arrival: without the call and the merges.

    Most turns have no merge of the merging trees, and none of single arrivals; the median leaves them out.
    """
    merges = name in ("sorted-run", "bi-sort") and batch > 1
    merge = copy * moved_entries(name, window, batch) if merges else 0.0
    return max(figure.median - count_call / batch - merge, 0.1 * figure.median)


def _segments(effort: Effort, scans: dict[int, list[list[float]]]) -> dict[float, Surface]:
    """The seconds of the matches from one number to the next."""
    result: dict[float, Surface] = {}
    before = np.zeros((len(effort.windows), len(effort.scanned_batches)))
    for matches, times in scans.items():
        more = np.maximum(np.array(times) - before, _LEAST)
        result[float(matches)] = Surface(effort.windows, effort.scanned_batches, rising(more.tolist()))
        before = before + more
    return result


def _in_turns(
    stream: Stream, effort: Effort, batches: tuple[int, ...], arrivals: int, listed: bool = False
) -> dict[int, Figure]:
    """Seconds of an arrival for each size of a push, in turns.

    All sizes see each phase of what an index does from time to time: merges, and subwindows that begin. A
    push that is much larger than the windows is cut by the join, and costs as much as one of their size.
    """
    useful = [batch for batch in batches if batch <= 4 * stream.window]
    samples: dict[int, list[float]] = {batch: [] for batch in useful}
    piece = arrivals // (len(useful) * effort.turns)
    for batch in useful:
        stream.time(batch, batch, listed)
    for _ in range(effort.turns):
        for batch in useful:
            count = min(piece, effort.singles) if batch == 1 else piece
            samples[batch].append(stream.time(count, batch, listed))
    return {batch: Figure(samples[min(batch, useful[-1])]) for batch in batches}


def _counted(name: str, effort: Effort, push_call: float, count_call: float) -> float:
    """The time of an arrival whose matches are counted, as a share of the time where they are listed."""
    stream = Stream(name, effort.windows[-1])
    times = [
        min(stream.time(effort.singles, 128, listed) for _ in range(effort.turns)) - call / 128
        for listed, call in ((False, count_call), (True, push_call))
    ]
    return float(f"{min(max(times[0] / times[1], 0.01), 1.0):.3g}")


def _copy(name: str, effort: Effort) -> float:
    """Seconds of an entry that a merge moves: by merging more often, and nothing else."""
    window = effort.middle
    few, many = window // 4, max(window // 64, 8)
    variants: dict[str, list[tuple[str, int, float]]] = {
        "im-tree": [
            ("im-tree(min_entries=1)", 256, 8),
            ("im-tree(min_entries=1,merge_ratio=0.015625)", 256, 64),
        ],
        "pim-tree": [
            ("pim-tree(min_entries=1)", 256, 8),
            ("pim-tree(min_entries=1,merge_ratio=0.015625)", 256, 64),
        ],
        "sorted-run": [("sorted-run", batch, window / batch) for batch in (few, many)],
        "bi-sort": [
            (f"bi-sort(buffer={batch})", batch, window / 14 / batch) for batch in (few // 8, many // 8)
        ],
    }
    if name not in variants:
        return 0.0
    times = []
    for index, batch, _ in variants[name]:
        stream = Stream(index, window, one_sided=True)
        turns = [stream.time(max(window, effort.least) // effort.turns, batch) for _ in range(effort.turns)]
        times.append(float(np.mean(turns)))
    (_, _, least), (_, _, most) = variants[name]
    return max((times[1] - times[0]) / (most - least), _LEAST)


def _insert_share(name: str, effort: Effort, copy: float, count_call: float, base: Surface) -> float:
    """The share of the insert in search and insert: by a join whose other side is empty."""
    window, batch = effort.middle, 256
    if name == "nested-loop":
        window = effort.windows[-1]
    stream = Stream(name, window, one_sided=True, plain=False)
    seconds = np.mean([stream.time(effort.least, batch) for _ in range(effort.turns)])
    own = float(seconds) - count_call / batch - copy * moved_entries(name, window, 2 * batch)
    return float(f"{min(max(own / base(window, 2 * batch), 0.02), 0.98):.3g}")


def measure_listing(
    effort: Effort, count_call: float, push_call: float, tick: Callable[[], None]
) -> tuple[Surface, Surface, float]:
    """Seconds of listing an arrival's matches; of a pair of a large result; the spread of the first.

    All indexes list their matches in the same way, except that the bucket-tree's join writes a few while it
    finds them.
    """
    calls = push_call - count_call
    rows, spreads = [], []
    for window in effort.windows:
        row: list[float] = []
        for matches in effort.listed:
            figure = _listed(effort, window, matches, effort.small_result, calls)
            spreads.append(figure.spread)
            row.append(max(figure.median, row[-1] if row else _LEAST))
        rows.append(row)
        tick()
    listing = Surface(effort.windows, effort.listed, rising(rows))
    window, matches = effort.windows[1], effort.listed[-2]
    extra = [_LEAST / 100]
    for pairs in effort.results:
        figure = _listed(effort, window, matches, pairs, calls)
        extra.append(max((figure.median - listing(window, matches)) / matches, extra[-1]))
    return listing, Surface([1], [effort.small_result, *effort.results], [extra]), float(np.median(spreads))


def _listed(effort: Effort, window: int, matches: int, pairs: int, calls: float) -> Figure:
    """Seconds that an arrival's matches take to be listed, in pushes that have so many pairs."""
    few = min(matches, window // 4)
    batch = max(min(pairs // few, 1024) if pairs == effort.small_result else pairs // few, 32)
    stream = Stream("im-tree", window, few)
    arrivals = min(max(effort.pairs // few, batch), 2**15)
    stream.time(arrivals, batch, listed=True)
    extra = []
    for _ in range(effort.turns):
        counted = stream.time(arrivals, batch)
        extra.append((stream.time(arrivals, batch, listed=True) - counted - calls / batch) * matches / few)
    return Figure(extra)
