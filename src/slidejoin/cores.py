"""The number of cores that this process may use."""

import os


def usable_cores() -> int:
    """Cores that the system lets this process run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
