"""Writes the corpus that index fuzzing starts from: every structure, key width and kind of life of a window.

``python core/tests/make_corpus.py`` from anywhere; the same files every time. ``fuzz_index.hpp`` says what
the bytes mean. Inputs that fuzzing has found are added by hand, under other names.
"""

import random
import re
from pathlib import Path

CATALOG = (Path(__file__).parents[1] / "catalog.hpp").read_text()
KINDS = [kind.replace("_", "-") for kind in re.findall(r'^ +X\((\w+), \w+, \w+, "', CATALOG, re.MULTILINE)]
# Operations, by the low four bits of their byte.
INSERT, GROUP, BATCH, PROBE, PROBES = 0, 2, 4, 7, 9
FORGET_FEW, FORGET_SHARE, CHECK, SHAPE, GAP = 11, 12, 13, 14, 15


def bytes_of(rng, count):
    return [rng.randrange(256) for _ in range(count)]


def shape(number):
    return [number << 4 | SHAPE]


def tuples(rng):
    """Tuple by tuple: insert, probe, forget one."""
    script = shape(rng.randrange(16))
    for step in range(22):
        script += [INSERT, rng.randrange(256), PROBE, *bytes_of(rng, 5), CHECK]
        script += [FORGET_FEW, rng.randrange(2)] if step > 6 else []
    return script


def groups(rng):
    """Groups of up to 16, probed together, in a window of about a hundred."""
    script = shape(rng.randrange(16))
    for step in range(6):
        count = rng.randrange(16)
        script += [GROUP, count, *bytes_of(rng, count + 1), PROBES, 1, *bytes_of(rng, 10), CHECK]
        script += [FORGET_SHARE, rng.choice((40, 90))] if step > 2 else [GAP | rng.randrange(16) << 4]
    return script


def ages(rng):
    """Few keys and 2^29 positions without any between them, so that positions wrap around more than once."""
    script = shape(0)
    for _ in range(14):
        script += [GROUP, 2, *bytes_of(rng, 3), GAP | 12 << 4, PROBE, 0, 255, 0, 0, 255, CHECK]
    return script


def batches(rng):
    """Batches of hundreds under keys that change their shape; the window turns over, and is emptied once."""
    script = []
    for step in range(9):
        script += shape(rng.randrange(16)) if step % 3 == 0 else []
        script += [BATCH | rng.choice((1, 2, 3)) << 6, rng.randrange(256), rng.randrange(256)]
        script += [PROBES | 16, 2, *bytes_of(rng, 15), CHECK]
        script += [FORGET_SHARE, 255 if step == 5 else rng.choice((60, 120, 200)), CHECK]
    return script


def main():
    corpus = Path(__file__).parent / "corpus"
    for kind, name in enumerate(KINDS):
        for make in (tuples, groups, batches, ages):
            for wide in (0, 1):
                rng = random.Random(f"{name} {make.__name__} {wide}")
                options = bytes_of(rng, 8)
                if make is ages:
                    options[6] = 5  # subwindows and merges that would take all entries of the script
                script = [kind, wide, rng.randrange(5), *options, *make(rng)]
                (corpus / f"{name}-{make.__name__}-{32 << wide}.fuzz").write_bytes(bytes(script))


if __name__ == "__main__":
    main()
