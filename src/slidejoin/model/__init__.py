"""The performance of a join before it runs: throughput and latency from rates, windows and costs."""

from slidejoin.model.costs import ArrivalCost, Costs, SparkCosts
from slidejoin.model.index_cost import IndexCost
from slidejoin.model.join_model import JoinModel
from slidejoin.model.table import ModelTable

__all__ = ["ArrivalCost", "Costs", "IndexCost", "JoinModel", "ModelTable", "SparkCosts"]
