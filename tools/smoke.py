"""Try an installed slidejoin: joins on every instruction set of this processor, and the command.

Run by the Python of an environment that has slidejoin, without the checkout in its path:

    python -I tools/smoke.py [--cli] [--levels portable,avx512]
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

import slidejoin as sj
from slidejoin import isa


def expect(found: object, expected: object, what: str) -> None:
    if found != expected:
        raise SystemExit(f"{what}: {found!r}; expected {expected!r}")


def try_joins() -> None:
    """A join of two small tables, and a numeric one that gives brute force's pairs on every level."""
    join = sj.WindowJoin(sj.band("price", within=0.5), sj.rows(10))
    join.push(left=pa.table({"price": [1.0, 5.0], "id": [1, 2]}))
    found = join.push(right=pa.table({"price": [5.25, 9.0]}))
    expect(found.to_pylist(), [{"price": 5.0, "id": 2, "price_right": 5.25}], "the join of two tables")

    rng = np.random.default_rng(0)
    sides, keys = rng.integers(0, 2, 4000).astype(np.uint8), rng.integers(0, 5000, 4000).astype(np.int32)
    left, right = keys[sides == 0].astype(np.int64), keys[sides == 1].astype(np.int64)
    pairs = np.argwhere(np.abs(left[:, None] - right[None, :]) <= 3).tolist()
    for level in isa.available():
        with isa.use(level):
            numbers = sj.NumericJoin(window=4000, lower=-3, upper=3, key=np.int32)
            parts = [numbers.push(sides[i : i + 500], keys[i : i + 500]) for i in range(0, 4000, 500)]
        found = sorted(pair for part in parts for pair in zip(*(p.tolist() for p in part), strict=True))
        expect(found, [tuple(pair) for pair in pairs], f"the pairs of {level}")


def try_command(*, cli: bool) -> None:
    """The entry point: joins two files, or names the extra that is missing."""
    command = str(Path(sys.executable).with_name("slidejoin"))
    version = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
    expect(version, f"slidejoin {sj.__version__}\n", "slidejoin --version")
    with tempfile.TemporaryDirectory() as name:
        Path(name, "left.csv").write_text("id,x\n1,1\n2,5\n")
        Path(name, "right.csv").write_text("x\n6\n9\n")
        arguments = [
            "run",
            "left.csv",
            "right.csv",
            "--on",
            "abs(left.x - right.x) <= 1",
            "--output",
            "out.csv",
        ]
        run = subprocess.run([command, *arguments], cwd=name, capture_output=True, text=True, check=False)
        if cli:
            expect(run.returncode, 0, f"slidejoin run: {run.stderr}")
            expect(Path(name, "out.csv").read_text(), '"id","x","x_right"\n2,5,6\n', "the file it writes")
        else:
            expect(run.returncode, 1, "slidejoin run without its extra")
            expect("pip install 'slidejoin[cli]'" in run.stderr, True, run.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cli", action="store_true", help="the extra is installed")
    parser.add_argument("--levels", default="", help="instruction sets that must be there")
    options = parser.parse_args()
    place = Path(sj.__file__).resolve()
    expect(place.is_relative_to(Path(sys.prefix).resolve()), True, f"{place} is not in {sys.prefix}")
    missing = set(filter(None, options.levels.split(","))) - set(isa.available())
    expect(missing, set(), "instruction sets that are missing")
    try_joins()
    try_command(cli=options.cli)
    levels = ", ".join(isa.available())
    sys.stdout.write(
        f"slidejoin {sj.__version__} on Python {sys.version.split()[0]}, {os.uname().machine}: {levels}\n"
    )


if __name__ == "__main__":
    main()
