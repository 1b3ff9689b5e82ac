"""Sizes of memory as users write them: a number of bytes, or a text such as ``"2GB"``."""

import math

from slidejoin.errors import SpecError

_SIZES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
          "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}  # fmt: skip


def parse_bytes(given: int | float | str, name: str = "memory") -> float:
    """Bytes, also written as ``"2GB"`` or ``"512 MiB"``.

    Examples
    --------
    >>> parse_bytes("512 MiB")
    536870912.0
    """
    text = str(given).strip()
    if isinstance(given, str) and text.replace("_", "").replace(".", "").isdecimal():
        raise SpecError(f"{name} {given!r} has no unit; write '2GB' or '512MiB'")
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
    unit = text[len(digits) :].strip().upper()
    try:
        number = float(digits.replace("_", "")) * _SIZES[unit]
    except (ValueError, KeyError):
        raise SpecError(f"{name} {given!r} is not a number of bytes; write 2_000_000_000 or '2GB'") from None
    if not number > 0 or not math.isfinite(number):
        raise SpecError(f"{name} {given!r}; expected more than 0 bytes")
    return number
