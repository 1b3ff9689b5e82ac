"""Trades and quotes of a few symbols, joined by price in this process.

``streams`` generates the input, ``job`` pushes it in batches with progress shown, ``check`` holds
what came out against the reference and against the definition of the join.
"""
