"""The check of the result: all pairs are found again by brute force and compared row by row.

No code of the join is used here: quotes are sorted by symbol and price, every trade looks up the quotes
within the band, and those within the window are kept.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slidejoin.demo.spark.feed import AFTER, BEFORE, Feed

_CHUNK = 100_000  # trades at a time
_PRICES = 2**32  # keeps the symbols apart in one sorted number
_SECOND = 1_000_000


def find_failure(feed: Feed, band: int, result: pa.Table) -> str | None:
    """Say in words the first thing that is wrong with the result, or return None."""
    quotes = len(feed.quotes)
    found = np.sort(_column(result, "trade") * quotes + _column(result, "quote"))
    expected = np.sort(pairs_by_brute_force(feed, band))
    if len(found) > 1 and (found[1:] == found[:-1]).any():
        twice = found[:-1][found[1:] == found[:-1]]
        return f"{len(twice):,} pairs came out twice, such as {_pair(twice[0], quotes)}"
    for what, codes in (
        ("are missing", np.setdiff1d(expected, found, assume_unique=True)),
        ("are not matches", np.setdiff1d(found, expected, assume_unique=True)),
    ):
        if len(codes):
            return f"{len(codes):,} of {len(expected):,} pairs {what}, such as {_pair(codes[0], quotes)}"
    return _difference_of_columns(feed, result)


def pairs_by_brute_force(feed: Feed, band: int) -> NDArray[np.int64]:
    """All pairs, each as trade * number of quotes + quote."""
    trade_keys, quote_keys = _keys(feed.trades), _keys(feed.quotes)
    trade_times, quote_times = _column(feed.trades, "ts"), _column(feed.quotes, "ts")
    by_key = np.argsort(quote_keys)
    sorted_keys = quote_keys[by_key]
    found = []
    for start in range(0, len(trade_keys), _CHUNK):
        trades = np.arange(start, min(start + _CHUNK, len(trade_keys)))
        first = np.searchsorted(sorted_keys, trade_keys[trades] - band, side="left")
        last = np.searchsorted(sorted_keys, trade_keys[trades] + band, side="right")
        counts = last - first
        trade = np.repeat(trades, counts)
        offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        quote = by_key[np.repeat(first, counts) + offsets]
        newer = quote_times[quote] - trade_times[trade]
        in_window = (newer >= -BEFORE * _SECOND) & (newer <= AFTER * _SECOND)
        found.append(trade[in_window] * len(quote_keys) + quote[in_window])
    return np.concatenate([np.empty(0, np.int64), *found])


def _difference_of_columns(feed: Feed, result: pa.Table) -> str | None:
    """Compare every value with the row of the input that it must come from."""
    for rows, number in ((feed.trades, "trade"), (feed.quotes, "quote")):
        suffix = "" if number == "trade" else "_right"
        for name in rows.column_names:
            there = name if name in (number, "shares", "size") else name + suffix
            expected = rows.column(name).take(result.column(number))
            found = result.column(there).cast(expected.type)
            wrong = pc.sum(pc.not_equal(found, expected)).as_py() or 0
            if wrong or found.null_count:
                return f"{wrong + found.null_count:,} values of column {there!r} are not those of the input"
    return None


def _keys(table: pa.Table) -> NDArray[np.int64]:
    symbols = pc.cast(pc.utf8_slice_codeunits(table.column("symbol"), 1), pa.int64())
    keys: NDArray[np.int64] = symbols.to_numpy() * _PRICES + _column(table, "cents")
    return keys


def _column(table: pa.Table, name: str) -> NDArray[np.int64]:
    numbers: NDArray[np.int64] = table.column(name).cast(pa.int64()).to_numpy()
    return numbers


def _pair(code: int, quotes: int) -> str:
    return f"trade {code // quotes} with quote {code % quotes}"
