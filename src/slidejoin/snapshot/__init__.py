"""Snapshots: the state of a join as documents, whole or in increments, and the way back.

``binary`` is the format of documents, ``parts`` that of the tables in them. ``chunks`` knows which rows are
in which chunk, ``save`` turns joins into documents and back.
"""
