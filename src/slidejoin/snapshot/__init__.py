"""Snapshots: the state of a join as documents, whole or in increments, and the way back.

``binary`` is the format, ``chunks`` tells which rows stand in which chunk, ``save`` turns joins into
documents and back.
"""
