"""slidejoin on Spark: the same joins on DataFrames, streaming and batch.

Spark computes the partitions of a row (``partition``, ``arrivals``) and brings rows there, where each pair
meets once. A task (``task``, ``batch``) joins its new rows with each other and with the sorted runs
(``runs``, ``live``, ``meet``) that earlier micro-batches left in files (``heads``, ``marks``, ``base``,
``tidy``, ``files``). ``prepare`` checks the call, and ``recipe`` is what is sent to the tasks. ``metrics``,
``micro_batches`` and ``watch`` show how a query runs.
"""

try:
    from pyspark.sql import DataFrame as _DataFrame

    _DataFrame.mapInArrow  # noqa: B018
except (ImportError, AttributeError) as error:
    raise ImportError("slidejoin.spark needs PySpark 3.5 to 4.3: pip install 'slidejoin[spark]'") from error

from slidejoin.spark.explain import explain
from slidejoin.spark.join import join
from slidejoin.spark.metrics import metrics
from slidejoin.spark.reason import reason
from slidejoin.spark.state import StateRun, state
from slidejoin.spark.watch import watch

__all__ = ["StateRun", "explain", "join", "metrics", "reason", "state", "watch"]
