"""Two sets of files joined into a directory of Parquet files: what ``slidejoin run`` does.

``text`` reads the condition and the window, ``files`` the rows; ``embedded`` joins them in this process and
``spark`` on Spark; ``output`` makes the result appear whole or not at all. ``session`` starts Spark,
``watch`` and ``progress`` show how far a run is.
"""
