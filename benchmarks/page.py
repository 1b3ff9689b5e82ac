"""``python -m benchmarks.page``: writes docs/performance.md from the results that are kept.

The page is never edited by hand, so that it cannot say anything that was not measured. A test compares both.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import BENCHMARKS
from benchmarks.bucket import STEPS
from benchmarks.peer import ROOT
from benchmarks.picture import time_of_an_arrival

PAGE = ROOT / "docs" / "performance.md"
PICTURE = ROOT / "docs" / "images" / "time-of-an-arrival.svg"
RESULTS = ROOT / "benchmarks" / "results"
HEAD = """\
# Performance

Written by `python -m benchmarks.page` from `benchmarks/results/`; do not edit. Each section is the output of
one command, `python -m benchmarks NAME` (after `make peers`; install `libabsl-dev` to compare with Abseil).
`make bench` runs all of them into `build/bench`.

How we measure: contenders alternate in one run, at least five rounds; a ratio is the median of the ratios of
the rounds, and above 1x means that the first contender is faster unless the line says "time". Streams have
uniform 32-bit keys, full count windows of w rows per side and two matches per row, unless the line says
otherwise; every pair is produced. The spread is the distance of the quartiles as a share of the median. The
peer in C++ is a join on Abseil's B-tree (`benchmarks/peers/`), compiled for the machine and given huge pages.
`parallel` has as many workers as it may use cores, or as `SLIDEJOIN_WORKERS` says.

A section NAME-16 is of a machine with 16 cores, NAME-avx2 of a processor that was held to AVX2
(`SLIDEJOIN_ISA=avx2`). m: matches of an arrival. L: subindexes of a chain. Groups of 16: so many arrivals are
stored before they look for their partners. The papers' structures: `im-tree`, `ib-chain`, `pim-tree`,
`bi-sort`. The other checkout: an earlier commit.
"""


WHERE = f"""\
## Where the time of an arrival goes

![The steps of the bucket-tree for three windows, and the time of four cache lines](images/{PICTURE.name})

From the section `bucket`: an arrival on its way through the join of plain arrivals
(`core/join/plain.hpp`), 16 at a time.
{"; ".join(f"*{step}*: {what}" for step, what in STEPS.items())}.
Plain is an inner join on one band over `rows` or `within`. Any join that stores its tuples must touch
about four cache lines at random places for an arrival: a key and a position to insert, a key and a
position to probe. The red marks show how long four independent reads take in as much memory, by the same
thread. A leaf's keys are up to four lines, so that an arrival here touches about eight, and six of the
directory, which is in near caches up to w=2^20.
"""


# What stands in the way of a target, by the beginning of its line. {a line} is the figure of that line in the
# same report; LINE is what follows the first comma of the target's own line, SHAPE what follows the last.
_STEPS = ", ".join(f"{step} {{bucket-tree, step {step}, groups of 16, SHAPE}}" for step in STEPS)
_MANY = (
    "each match is a pair of 16 bytes to write, for every index; the bucket-tree also reads leaves that are "
    "not side by side, three cache lines of positions for some 35 matches"
)
_NUMPY = f"NumPy's sort uses AVX-512; an arrival of the join takes {_STEPS}"
_FRESH = (
    "a result of 0.5 GB is written to fresh memory, for which some virtual machines have to wait: in turns "
    "{sj.join, two tables of 10000000 rows, 2 matches a row, one core}, by itself "
    "{sj.join, two tables of 10000000 rows, 2 matches a row, one core, each by itself}"
)
_PAUSES = (
    "interrupts of the machine, which a loop without a join has, too ({no join, LINE}); the least of five "
    "replicas, which is the join's own, is {bucket-tree, LINE, processor time, least of replicas}"
)
REASONS = {
    "WindowJoin / NumericJoin, numbers": (
        "NumericJoin has become two to three times as fast since the target was set; of a push with both "
        "sides, {share of a push, numbers: native join} are the same join, "
        "{share of a push, numbers: build the table} take the columns of the result, "
        "{share of a push, numbers: read and split} read and split the batch"
    ),
    "WindowJoin / NumericJoin, strings": (
        "as for numbers; {share of a push, strings: native join} of a push with both sides are the join, "
        "{share of a push, strings: build the table} the result, "
        "{share of a push, strings: read and split} the batch"
    ),
    "bucket-tree / absl, tuple by tuple": (
        "leaves are not fetched before their arrival comes, so that each waits for memory about once; four "
        "lines that do not wait for each other take {four random cache lines, w=2^20}"
    ),
    "bucket-tree / absl, groups of 16": (
        f"locate and write wait for the lines of leaves: {_STEPS}; four random lines take "
        "{four random cache lines, SHAPE}"
    ),
    "bucket-tree / absl, decreasing keys": (
        "each key falls into the first leaf, which splits every few dozen arrivals; the rest of the group "
        "is then located again"
    ),
    "bucket-tree / best of the papers' structures": _MANY,
    "best index / NumPy's best": _NUMPY,
    "bucket-tree, p99.99 of pushes": _PAUSES,
    "bucket-tree, longest of pushes": _PAUSES,
    "sj.join / DuckDB": _FRESH,
    "sj.join / Polars": _FRESH,
    "slidejoin run, two CSV files": (
        "of some 4.5 s, 0.4 s are the start of the process, 1.6 s the join, and 1.2 s the merge of the "
        "inputs and the taking of results, on one thread (once, by hand)"
    ),
    "shared pim-tree, 1 worker / serial": (
        "the serial join sorts whole batches; the worker takes chunks of 32 in the order of arrival"
    ),
    "longest gap between results": (
        "all workers share a merge, also where it blocks the join, which has made that gap short, too"
    ),
    "best strategy / best serial": (
        "one thread joins plain arrivals in a single pass, {auto, 1 worker, LINE}; the workers of phases "
        "admit, insert, probe and write in steps, and meet in between"
    ),
}


def page() -> str:
    """The whole page."""
    reports = _reports()
    return "\n".join(
        [
            HEAD,
            WHERE,
            *_missed(reports),
            *(line for name in reports for line in _section(name, reports[name])),
        ]
    )


def picture() -> str:
    """The picture of the page."""
    return time_of_an_arrival(_reports()["bucket"])


def _reports() -> dict[str, dict[str, Any]]:
    return {path.stem: _read(path) for name in BENCHMARKS for path in _files(name)}


def _files(name: str) -> list[Path]:
    """What is kept of a benchmark: NAME.json, and NAME-*.json of further machines."""
    own = RESULTS / f"{name}.json"
    return [path for path in (own, *sorted(RESULTS.glob(f"{name}-*.json"))) if path.is_file()]


def _read(path: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return report


def _missed(reports: dict[str, dict[str, Any]]) -> Iterator[str]:
    """One row for each line, with the machines on which it missed its target."""
    yield "## Targets that were missed\n"
    yield "| what | measured (section) | target | what stands in the way |\n|---|---|---|---|"
    missed: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for name, report in reports.items():
        for result in report["results"]:
            if result["ok"] is False:
                missed.setdefault(result["what"], []).append((name, result))
    for what, places in missed.items():
        measured = ", ".join(f"{_value(result, exact=True)} ({name})" for name, result in places)
        first, result = places[0]
        yield f"| {_text(what)} | {measured} | {_text(result['target'])} | {_reason(reports[first], what)} |"
    yield ""


def _reason(report: dict[str, Any], what: str) -> str:
    """What stands in the way of a target, with the figures of this report."""
    lines = {result["what"]: _value(result) for result in report["results"]}
    reason = next((text for start, text in REASONS.items() if what.startswith(start)), "")
    shape = what.rpartition(", ")[2]
    line = what.partition(", ")[2]
    reason = reason.replace("SHAPE", shape).replace("LINE", line)
    return _text(re.sub(r"{(.*?)}", lambda match: lines.get(match[1], "not measured"), reason))


def _section(name: str, report: dict[str, Any]) -> Iterator[str]:
    machine = report["machine"]
    load = "unknown" if not machine["load_before"] else f"{machine['load_before'][0]}"
    changed = ", with changes that were not committed" if machine["dirty"] else ""
    yield f"## {name}\n"
    yield f"{BENCHMARKS[report['benchmark']].about}.\n"
    siblings = machine.get("smt_siblings")  # older reports do not tell
    threads = f" (threads of one core: {' '.join(siblings)})" if siblings else ""
    yield (
        f"{machine['cpu']}, {machine['cores']} cores{threads}, {machine['instruction_set']}, "
        f"load {load} before; "
        f"commit {(machine['commit'] or 'unknown')[:10]}{changed}.\n"
    )
    for title, wanted in (("with a target", True), ("for information", False)):
        rows = [result for result in report["results"] if bool(result["target"]) is wanted]
        if not rows:
            continue
        if not wanted:
            yield f"<details><summary>{len(rows)} lines {title}</summary>\n"
        yield "| what | measured | spread | target | |\n|---|---|---|---|---|"
        for result in rows:
            spread = "" if result["spread"] is None else f"{result['spread']:.0%}"
            met = {True: "met", False: "missed", None: ""}[result["ok"]]
            target = _text(result["target"] or "")
            yield f"| {_text(result['what'])} | {_value(result)} | {spread} | {target} | {met} |"
        yield "" if wanted else "\n</details>\n"


def _value(result: dict[str, Any], exact: bool = False) -> str:
    value = result["value"]
    if value is None:
        return "not measured"
    if exact and f"{value:.3g}" == result["target"].split()[1]:
        return f"{value:.4g} {result['unit']}"
    return f"{value:,.0f} {result['unit']}" if value >= 100 else f"{value:.3g} {result['unit']}"


def _text(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    PICTURE.write_text(picture(), encoding="utf-8")
