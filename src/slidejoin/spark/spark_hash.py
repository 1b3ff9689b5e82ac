"""Spark's own hash of a number, so that rows can be sent to the shuffle partition of a given number."""

import functools

_LOW = 2**32 - 1


@functools.lru_cache(maxsize=16)
def partition_ids(partitions: int) -> tuple[int, ...]:
    """Numbers that ``repartition(partitions, number)`` sends to partition 0, 1, 2 and so on.

    Cost: about ``partitions * log(partitions)`` hashes.

    Examples
    --------
    >>> ids = partition_ids(4)
    >>> [spark_hash(number) % 4 for number in ids]
    [0, 1, 2, 3]
    """
    found: dict[int, int] = {}
    number = 0
    while len(found) < partitions:
        found.setdefault(spark_hash(number) % partitions, number)
        number += 1
    return tuple(found[partition] for partition in range(partitions))


def spark_hash(number: int, seed: int = 42) -> int:
    """Spark SQL's ``hash`` of one int: Murmur3 of 32 bits, by A. Appleby, of its 4 bytes."""
    mixed = (number & _LOW) * 0xCC9E2D51 & _LOW
    mixed = _rotated(mixed, 15) * 0x1B873593 & _LOW
    state = (_rotated(seed ^ mixed, 13) * 5 + 0xE6546B64) & _LOW
    state ^= 4
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        state = (state ^ state >> shift) * factor & _LOW
    state ^= state >> 16
    return state - 2**32 if state >= 2**31 else state


def _rotated(word: int, places: int) -> int:
    return (word << places | word >> (32 - places)) & _LOW
