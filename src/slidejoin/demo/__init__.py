"""The main job on generated streams of trades and quotes, with a check of what came out.

``spark`` is the pipeline on local Spark, ``embedded`` the native join in this process.
"""
