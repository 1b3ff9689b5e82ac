"""Trades and quotes of a few symbols, joined by price in this process.

``streams`` generates the input, ``job`` pushes it in batches and shows progress, ``check`` compares
the result with the reference and with the definition of the join.
"""
