"""Costs as a JSON file: read with every number checked, written as a whole or not at all."""

import json
import os
import tempfile
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

from slidejoin.atomic_file import write_file
from slidejoin.errors import SpecError, StateError
from slidejoin.index import PARAMETERS
from slidejoin.model.costs import Costs, IndexCosts, SparkCosts
from slidejoin.model.surface import Surface

VERSION = 2
_REMEDY = "measure again with: slidejoin model calibrate"


def costs_path() -> Path:
    """The file of this machine's costs."""
    named = os.environ.get("SLIDEJOIN_CALIBRATION")
    if named:
        return Path(named)
    cache_home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(cache_home) / "slidejoin" / "costs.json"


@cache
def default_costs() -> Costs:
    """The costs that come with the package."""
    text = files("slidejoin.model").joinpath("default_costs.json").read_text(encoding="utf-8")
    return from_json(json.loads(text), measured=False)


def load_costs(path: str | os.PathLike[str] | None = None) -> Costs:
    """The costs in a file; without a path those of this machine if there are any, else the default."""
    where = _place(path)
    try:
        text = where.read_text(encoding="utf-8")
    except FileNotFoundError:
        if path is None:
            return default_costs()
        raise StateError(f"there is no file of costs {where}; {_REMEDY} --output {where}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise StateError(f"the costs in {where} cannot be read: {error}") from None
    try:
        return from_json(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise StateError(f"the costs in {where} are not usable: {error}; {_REMEDY}") from None


def save_costs(costs: Costs, path: str | os.PathLike[str] | None = None) -> Path:
    """Write costs to a file, with the directories that it needs; returns its path."""
    where = _place(path)
    where.parent.mkdir(parents=True, exist_ok=True)
    write_file(where, (json.dumps(to_json(costs), indent=1) + "\n").encode())
    return where


def check_place(path: str | os.PathLike[str] | None = None) -> None:
    """Raise OSError if costs cannot be written to a file; the directories that it needs are made."""
    where = _place(path)
    where.parent.mkdir(parents=True, exist_ok=True)
    if where.is_dir():
        raise IsADirectoryError(f"{where} is a directory; name a file for the costs")
    with tempfile.TemporaryFile(dir=where.parent):
        pass


def _place(path: Any) -> Path:
    if path is None:
        return costs_path()
    if not isinstance(path, str | os.PathLike):
        raise SpecError(f"path {path!r}; expected the name of a file of costs, or nothing")
    return Path(path)


def to_json(costs: Costs) -> dict[str, Any]:
    """The costs as JSON values."""
    return {
        "version": VERSION,
        "date": costs.date,
        "machine": dict(costs.machine),
        "spread": dict(costs.spread),
        "calls": {name: getattr(costs, name) for name in _CALLS},
        "listing": _surface_json(costs.listing, "window", "matches"),
        "large": {
            "pairs": [int(each) for each in costs.large.columns],
            "seconds": [float(f"{time:.4g}") for time in costs.large.seconds[0]],
        },
        "speedups": {str(workers): speedup for workers, speedup in costs.speedups.items()},
        "spark": None if costs.spark is None else {"floor": costs.spark.floor, "row": costs.spark.row},
        "indexes": {name: _index_json(each) for name, each in costs.index_costs.items()},
    }


_CALLS = ("push", "count", "window_push", "window_row")


def from_json(data: Any, measured: bool = True) -> Costs:
    """Read costs back from JSON values; ValueError says what is wrong with them."""
    top = _Reader(data, "the file")
    version = top.get("version")
    if version != VERSION:
        raise ValueError(f"version {version!r}; this version of slidejoin reads version {VERSION}")
    calls, listing = top.part("calls"), top.part("listing")
    large = top.part("large")
    pairs = large.sizes("pairs")
    speedups = {_whole(name): number for name, number in top.part("speedups").numbers().items()}
    if 1 not in speedups:
        raise ValueError("speedups has no figure of 1 worker")
    spark = None if top.get("spark") is None else top.part("spark")
    indexes = top.part("indexes")
    missing = [name for name in PARAMETERS if name not in indexes.data]
    if missing:
        raise ValueError(f"indexes has no {missing[0]}")
    return Costs(
        index_costs={name: _index(indexes.part(name)) for name in PARAMETERS},
        listing=listing.surface("window", "matches"),
        large=Surface([1], pairs, [large.positive("seconds", len(pairs))]),
        **{name: calls.number(name) for name in _CALLS},
        speedups=dict(sorted(speedups.items())),
        spark=None if spark is None else SparkCosts(spark.number("floor"), spark.number("row")),
        machine=top.part("machine").data,
        date=str(top.get("date")),
        measured=measured,
        spread=top.part("spread").numbers(zero=True),
    )


def _surface_json(surface: Surface, row: str, column: str) -> dict[str, Any]:
    return {
        row: [int(each) for each in surface.rows],
        column: [int(each) for each in surface.columns],
        "seconds": [[float(f"{time:.4g}") for time in times] for times in surface.seconds],
    }


def _index_json(costs: IndexCosts) -> dict[str, Any]:
    return {
        "base": _surface_json(costs.base, "window", "batch"),
        "one_pass": costs.one_pass and _surface_json(costs.one_pass, "window", "batch"),
        "insert_share": costs.insert_share,
        "copy": costs.copy,
        "counted": costs.counted,
        "scan": {
            str(int(matches)): _surface_json(each, "window", "batch") for matches, each in costs.scan.items()
        },
        "memory": {
            "window": [int(each) for each in costs.memory.rows],
            "bytes": [float(f"{row[0]:.4g}") for row in costs.memory.seconds],
        },
        "spread": costs.spread,
    }


def _index(part: "_Reader") -> IndexCosts:
    scan = part.part("scan")
    memory = part.part("memory")
    share = part.number("insert_share", zero=True)
    if share > 1:
        raise ValueError(f"{part.where}.insert_share is {share}; expected a share of at most 1")
    windows = memory.sizes("window")
    if not scan.data or min(map(_whole, scan.data)) < 2:
        raise ValueError(f"{scan.where} needs numbers of matches, 2 at least")
    one_pass = part.get("one_pass")
    return IndexCosts(
        base=part.part("base").surface("window", "batch"),
        one_pass=None if one_pass is None else part.part("one_pass").surface("window", "batch"),
        insert_share=share,
        copy=part.number("copy", zero=True),
        counted=part.number("counted"),
        scan={
            float(name): scan.part(name).surface("window", "batch") for name in sorted(scan.data, key=_whole)
        },
        memory=Surface(windows, [1], [[each] for each in memory.positive("bytes", len(windows))]),
        spread=part.number("spread", zero=True),
    )


def _whole(name: str) -> int:
    if not name.isdecimal() or int(name) < 1:
        raise ValueError(f"{name!r} stands where a whole number is expected, 1 at least")
    return int(name)


class _Reader:
    """A part of the file, by its name, for messages."""

    def __init__(self, data: Any, where: str) -> None:
        if not isinstance(data, Mapping):
            raise ValueError(f"{where} is not an object with names")
        self.data, self.where = data, where

    def get(self, name: str) -> Any:
        if name not in self.data:
            raise ValueError(f"{self.where} has no {name!r}")
        return self.data[name]

    def part(self, name: str) -> "_Reader":
        return _Reader(self.get(name), name if self.where == "the file" else f"{self.where}.{name}")

    def number(self, name: str, zero: bool = False) -> float:
        return _number(self.get(name), f"{self.where}.{name}", zero)

    def numbers(self, zero: bool = False) -> dict[str, float]:
        return {name: self.number(name, zero) for name in self.data}

    def positive(self, name: str, count: int | None = None) -> list[float]:
        values = self.get(name)
        if not isinstance(values, list) or not values or (count is not None and len(values) != count):
            raise ValueError(f"{self.where}.{name} is not a list of {count or 'some'} numbers")
        return [_number(value, f"{self.where}.{name}") for value in values]

    def sizes(self, name: str) -> list[float]:
        values = self.positive(name)
        if any(second <= first for first, second in pairwise(values)):
            raise ValueError(f"{self.where}.{name} does not ascend")
        if values[0] < 1:
            raise ValueError(f"{self.where}.{name} begins with {values[0]}; expected sizes, 1 at least")
        return values

    def surface(self, row: str, column: str) -> Surface:
        rows, columns = self.sizes(row), self.sizes(column)
        seconds = self.get("seconds")
        if not isinstance(seconds, list) or len(seconds) != len(rows):
            raise ValueError(f"{self.where}.seconds is not a list of {len(rows)} lists")
        lists = [_Reader({"seconds": each}, self.where).positive("seconds", len(columns)) for each in seconds]
        return Surface(rows, columns, lists)


def _number(value: Any, where: str, zero: bool = False) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value <= 1e15:
        raise ValueError(f"{where} is {value!r}; expected a number up to 1e15")
    if value < 0 or (value == 0 and not zero):
        raise ValueError(f"{where} is {value!r}; expected a positive number")
    return float(value)
