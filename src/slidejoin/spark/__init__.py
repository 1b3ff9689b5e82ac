"""slidejoin on Spark: the same joins on DataFrames, streaming and batch.

A row goes by the router (``route``, ``tasks``) to groups, where each pair meets once. A group of streams is
an embedded join (``operator``), whose state Spark keeps (``kept``, ``cache``); one of batches is joined as
tables are (``batch``). ``prepare`` checks the call.
"""

try:
    from pyspark.sql.streaming import StatefulProcessor as _StatefulProcessor  # noqa: F401
except ImportError as error:
    raise ImportError("slidejoin.spark needs PySpark 4.0 to 4.3: pip install 'slidejoin[spark]'") from error

from slidejoin.spark.explain import explain
from slidejoin.spark.join import join
from slidejoin.spark.metrics import metrics

__all__ = ["explain", "join", "metrics"]
