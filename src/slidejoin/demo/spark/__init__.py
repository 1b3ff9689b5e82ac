"""Trades and quotes as files that arrive while a streaming query on local Spark joins them.

``feed`` generates them, ``job`` writes them step by step and watches the query, ``check`` finds all pairs
again by brute force and compares.
"""
