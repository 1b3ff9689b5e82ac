"""The formats of files: their names on the command line, and the endings of file names that tell them."""

from slidejoin.errors import SpecError, suggestion

ENDINGS = {
    "parquet": (".parquet", ".pq"),
    "csv": (".csv",),
    "tsv": (".tsv", ".tab"),
    "json": (".json", ".jsonl", ".ndjson"),
    "arrow": (".arrow", ".arrows", ".feather", ".ipc"),
}
DELIMITERS = {"csv": ",", "tsv": "\t"}
TEXTS = (*DELIMITERS, "json")
GZIP = ".gz"  # of text formats, when they are read
STREAM_ENDING = ".arrows"  # of Arrow's stream format; the others have its file format


def format_of(name: str) -> str | None:
    """The format that the ending of a name tells.

    Examples
    --------
    >>> format_of("trades.csv.gz"), format_of("trades.txt")
    ('csv', None)
    """
    lower = name.lower()
    plain = lower.removesuffix(GZIP)
    for format_, endings in ENDINGS.items():
        if plain.endswith(endings) and (plain == lower or format_ in TEXTS):
            return format_
    return None


def check_format(option: str, format_: str) -> str:
    """A format that a user named, or SpecError."""
    if format_ not in ENDINGS:
        meant = suggestion(format_, ENDINGS)
        raise SpecError(f"{option} {format_!r}; expected one of {', '.join(ENDINGS)}{meant}")
    return format_


def known_endings() -> str:
    """All endings, for messages."""
    return " ".join(ending for endings in ENDINGS.values() for ending in endings)
