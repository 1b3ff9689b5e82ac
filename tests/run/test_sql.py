"""Conditions in the form of SQL: the same predicates as in the form of Python, and errors that point."""

import contextlib
import doctest
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.errors import SpecError
from slidejoin.run import sql, sql_tokens
from slidejoin.run.text import EXAMPLES, parse_condition

BOTH = sj.less("x", offset=Fraction(-1, 2)) & sj.greater("x", offset=Fraction(1, 2))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("left.symbol = right.symbol", sj.equal("symbol")),
        ("right.b == left.a", sj.equal("a", "b")),
        ("left.a <> right.b", sj.not_equal("a", "b")),
        ("left.a != right.b", sj.not_equal("a", "b")),
        ("left.a < right.b", sj.less("a", "b")),
        ("left.a <= right.b", sj.less_equal("a", "b")),
        ("left.a > right.b", sj.greater("a", "b")),
        ("left.a >= right.b", sj.greater_equal("a", "b")),
        ("right.b > left.a", sj.less("a", "b")),
        ("right.b >= left.a + 5", sj.less_equal("a", "b", offset=5)),
        ("left.t <= right.t + 5", sj.less_equal("t", offset=-5)),
        ("left.t - 5 <= right.t", sj.less_equal("t", offset=-5)),
        ("left.t - right.t <= 5", sj.less_equal("t", offset=-5)),
        ("right.t - left.t < 5", sj.greater("t", offset=5)),
        ("5 > right.t - left.t", sj.greater("t", offset=5)),
        ("-left.t > -right.t - 2", sj.less("t", offset=-2)),
        ("left.t - (right.t - 5) >= 1 + 1", sj.greater_equal("t", offset=3)),
        ("left.x = right.y + 2", sj.band("x", "y", lower=-2, upper=-2)),
        ("abs(left.price - right.price) <= 0.05", sj.band("price", within=0.05)),
        ("ABS(right.price - left.price)<=.05", sj.band("price", within=0.05)),
        ("abs(left.x - right.x + 3) <= 5", sj.band("x", lower=-2, upper=8)),
        ("abs(left.x - right.x) < 0.5", BOTH),
        ("abs(left.x - right.x) <= 0", sj.band("x", within=0)),
        ("right.x between left.y - 3 and left.y + 10", sj.band("y", "x", lower=-3, upper=10)),
        ("left.y between right.x - 3 and right.x + 10", sj.band("y", "x", lower=-10, upper=3)),
        ("right.x - left.y BETWEEN -3 AND 10", sj.band("y", "x", lower=-3, upper=10)),
        ("right.t between left.a and left.b", sj.less_equal("a", "t") & sj.greater_equal("b", "t")),
        ("left.y - 3 <= right.x <= left.y + 10", sj.band("y", "x", lower=-3, upper=10)),
        ("right.x >= left.x - 1 and left.s = right.s and right.x <= left.x + 2",
         sj.band("x", lower=-1, upper=2) & sj.equal("s")),
        ("(left.a = right.a and (left.b < right.b)) and ((left.c) > right.c)",
         sj.equal("a") & sj.less("b") & sj.greater("c")),
        ("left.ts <= right.ts + '5s'", sj.less_equal("ts", offset="-5s")),
        ("left.ts <= right.ts + 250ms", sj.less_equal("ts", offset="-250ms")),
        ("abs(left.ts - right.ts) <= interval '1.5 min'", sj.band("ts", within="90s")),
        ("right.ts between left.ts and left.ts + 5s", sj.band("ts", lower=0, upper="5s")),
        ('left."a b" = right."say ""x"""', sj.equal("a b", 'say "x"')),
        ("left.`and` = right.left", sj.equal("and", "left")),
        ("left.größe = right._1", sj.equal("größe", "_1")),
        ("left.x <= right.x + 1_000", sj.less_equal("x", offset=-1000)),
        ("left.x <= right.x + 2e-3", sj.less_equal("x", offset=-0.002)),
        ("left.x <= right.x + 1e+3", sj.less_equal("x", offset=-1000)),
        ("\nleft.a\t=\n right.a ", sj.equal("a")),
    ],
)  # fmt: skip
def test_conditions(written, meant):
    assert parse_condition(written) == meant


@pytest.mark.parametrize(
    ("written", "place", "says"),
    [
        ("left.a = ", 9, "expected a column (left.x or right.x), a number or a duration, not the end"),
        ("left.a right.b", 7, "expected a comparison (= <> < <= > >=) or 'between', not 'right'"),
        ("left.a << right.b", 8, "not '<'"),
        ("left.a = right.b or left.c = right.c", 17, "joined by 'and' only"),
        ("not left.a = right.b", 0, "there is no 'not'"),
        ("left.a = right.b and", 20, "not the end"),
        ("left.a = right.b left.c = right.c", 17, "expected 'and' or the end"),
        ("price < right.price", 0, "which side has 'price'? Write left.price or right.price"),
        ("left.price < cost", 13, "Write left.cost or right.cost"),
        ("left.a = left.b", 0, "one column of left and one of right in a comparison, not left.a and left.b"),
        ("left.a = 5", 0, "not left.a"),
        ("left.a < 5 and right.b < 5", 0, "one of right"),
        ("left.a + right.b < 5", 0, "the sum of left.a and right.b is not compared, only their difference"),
        ("left.a * 2 < right.b", 7, "there is no *"),
        ("left.a <> right.b + 1", 0, "<> compares columns without a number"),
        ("abs(left.a - right.a) >= 5", 22, "expected <= or < after abs(...)"),
        ("5 >= abs(left.a - right.a)", 5, "abs(...) stands on the left"),
        ("abs(left.a - right.a) <= -5", 25, "never negative"),
        ("abs(left.a - right.a) <= right.b", 25, "not a column"),
        ("abs(left.a - right.a <= 5", 21, "expected ')'"),
        ("round(left.a) = right.a", 0, "there is no function round; the only one is abs(...)"),
        ("left. = right.a", 6, "the name of a column"),
        ("left.'a' = right.a", 5, "other than plain names are in quotes"),
        ("left.a = right.a + '5 parsecs'", 19, "parsecs"),
        ("left.a = right.a + 5parsecs", 19, "not a duration"),
        ("left.a = right.a + 1.2.3", 19, "is not a number"),
        ("left.a = right.a + 5 + 5s", 23, "do not add up"),
        ("right.a between left.a + 1 and left.a + 5s", 16, "one bound is a plain number"),
        ("right.x between left.x + 3 and left.x - 3", 16, "nothing can match"),
        ('left."a = right.a', 5, "is not closed"),
        ("left.a = right.a; drop", 16, "';' means nothing here"),
        ("left.a = right.a && left.b = right.b", 17, "'&' means nothing here; conditions are joined by"),
        ("left.a = right.a and interval 5", 30, "a duration in quotes"),
        ("(" * 60 + "left.a = right.a" + ")" * 60, 51, "levels of parentheses"),
        ("left.a = " + "-" * 200 + "right.a", 60, "levels"),
    ],
)  # fmt: skip
def test_errors_point_at_the_place(written, place, says):
    with pytest.raises(SpecError) as refused:
        parse_condition(written)
    first, text, caret = str(refused.value).split("\n")
    assert first.startswith("the condition is not understood: ")
    assert says in first
    assert text == f"  {written}"
    assert caret.index("^") == place + 2


@pytest.mark.parametrize(
    ("written", "place", "says"),
    [
        ("symbol = symbol", 0, "write left.symbol or right.symbol, such as left.symbol = right.symbol"),
        ("abs(price - cost) <= 3 and a <> b", 4, "write left.price"),
        ('"unit price" between 1 and 2', 0, 'left."unit price"'),
    ],
)
def test_columns_without_a_side(written, place, says):
    with pytest.raises(SpecError) as error:
        parse_condition(written)
    message, line, caret = str(error.value).split("\n")
    assert "a column needs its side" in message
    assert says in message
    assert (line.strip(), caret.index("^") - 2) == (written, place)


def test_long_texts_are_refused():
    with pytest.raises(SpecError, match="10,000 are the most"):
        parse_condition("left.a = right.a and " * 1000 + "left.a = right.a")


def test_example_is_right():
    assert parse_condition(EXAMPLES["sql"]) == sj.equal("symbol") & sj.band("price", within=0.5)


@given(st.text(alphabet="left.right =<>-+*()'\"`abs between and 5s01x,;\n", max_size=60))
def test_any_text_is_read_or_refused_in_words(text):
    with contextlib.suppress(SpecError):  # any other error fails
        sql.parse_sql(text)


def _evaluated(left, right, condition):
    """All pairs, by the meaning of the text in exact arithmetic on small integers and halves."""
    return sorted((a, b) for a, x in enumerate(left) for b, y in enumerate(right) if condition(x, y))


NUMBERS = st.integers(-4, 4)


@given(
    NUMBERS, NUMBERS, st.sampled_from(["<", "<=", ">", ">=", "="]), st.booleans(), st.booleans(),
    st.sampled_from(["int64", "float64"]), st.integers(0, 10**6),
)  # fmt: skip
def test_comparisons_mean_what_they_say(a, b, op, swapped, moved, type_, seed):
    """``left.x + a op right.y + b`` in several spellings, on random data."""
    rng = np.random.default_rng(seed)
    left, right = (rng.integers(-6, 7, 12) / (1 if type_ == "int64" else 2) for _ in range(2))
    tables = [pa.table({name: values.astype(type_)}) for name, values in (("x", left), ("y", right))]
    first, second = f"left.x + {a}" if a >= 0 else f"left.x - {-a}", f"right.y - {-b}"
    if moved:
        first, second = f"left.x - right.y + ({a})", f"{b}"
    flipped = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}[op]
    text = f"{second} {flipped} {first}" if swapped else f"{first} {op} {second}"
    compare = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "=": np.equal}[op]
    expected = _evaluated(left, right, lambda x, y: compare(x + a, y + b))
    numbered = [t.append_column(n, pa.array(range(12))) for t, n in zip(tables, ("i", "j"), strict=True)]
    found = sj.join(*numbered, parse_condition(text))
    assert sorted(zip(found["i"].to_pylist(), found["j"].to_pylist(), strict=True)) == expected


@given(st.integers(-3, 3), st.integers(0, 6), st.booleans(), st.integers(0, 10**6))
def test_distances_and_ranges_mean_what_they_say(shift, reach, strict, seed):
    rng = np.random.default_rng(seed)
    left, right = (rng.integers(-6, 7, 12) for _ in range(2))
    tables = pa.table({"x": left, "i": range(12)}), pa.table({"y": right, "j": range(12)})
    expected = _evaluated(
        left, right, lambda x, y: abs(x - y + shift) < reach if strict else abs(x - y + shift) <= reach
    )
    texts = [f"abs(left.x - right.y + ({shift})) {'<' if strict else '<='} {reach}"]
    if not strict:
        texts.append(f"right.y between left.x + ({shift}) - {reach} and left.x + ({shift}) + {reach}")
        texts.append(f"-{reach} <= left.x - right.y + ({shift}) <= {reach}")
    for text in texts:
        found = sj.join(*tables, parse_condition(text))
        assert sorted(zip(found["i"].to_pylist(), found["j"].to_pylist(), strict=True)) == expected


@pytest.mark.parametrize("module", [sql, sql_tokens])
def test_docstrings(module):
    assert doctest.testmod(module).attempted > 0
    assert doctest.testmod(module).failed == 0
