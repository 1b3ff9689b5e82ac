"""Spark: where the parts of the streaming pipeline are to live; so far its routing, which needs no Spark."""
