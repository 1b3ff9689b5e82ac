"""The planner: from rates, a window and a latency target to an index, a batch size, workers or partitions.

``plan_join`` predicts every sensible setting by calibrated costs (:class:`slidejoin.model.Costs`) and takes
the cheapest that holds all targets. ``workload`` is what the join has to do, ``predict`` what a setting does
with it, ``choose`` which one is taken and what limits it first.
"""

from slidejoin.plan.join_plan import JoinPlan, Limit
from slidejoin.plan.planner import plan_join

__all__ = ["JoinPlan", "Limit", "plan_join"]
