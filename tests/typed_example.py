"""How typed code uses the package: mypy reads this file, and a test runs it."""

from typing import assert_type

import pyarrow as pa

import slidejoin as sj

how: sj.How = "right_anti"
join = sj.WindowJoin(sj.band("price", within=0.5), sj.rows(1000), how=how)
result: pa.Table = join.push(left=[{"price": 1.5}])
assert_type(join.stats, sj.JoinStats)
assert_type(join.stats["rows_left"], int)
assert_type(join.index, str | None)


def wrong() -> None:
    """Mistakes that a type checker finds: it would complain about an unused "type: ignore"."""
    sj.WindowJoin(sj.equal("k"), 5, how="outer")  # type: ignore[arg-type]
    sj.join({}, {}, sj.equal("k"), "leftsemi")  # type: ignore[arg-type]
    assert join.stats["row_left"]  # type: ignore[typeddict-item]
