"""The performance of a join before it runs: throughput and latency from rates, windows and costs.

The names below are loaded when they are asked for: a join needs :mod:`slidejoin.model.choice` alone.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slidejoin.model.costs import ArrivalCost, Costs, SparkCosts
    from slidejoin.model.index_cost import IndexCost
    from slidejoin.model.join_model import JoinModel
    from slidejoin.model.table import ModelTable

__all__ = ["ArrivalCost", "Costs", "IndexCost", "JoinModel", "ModelTable", "SparkCosts"]

_HOMES = {
    "ArrivalCost": "costs",
    "Costs": "costs",
    "IndexCost": "index_cost",
    "JoinModel": "join_model",
    "ModelTable": "table",
    "SparkCosts": "costs",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
