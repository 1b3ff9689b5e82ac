"""Conditions and windows as text: what is read, what is refused, and that nothing is ever evaluated."""

import contextlib
import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

import slidejoin as sj
from slidejoin.errors import SpecError
from slidejoin.run import text
from slidejoin.run.text import EXAMPLES, parse_condition, parse_window


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("band('price', within=0.5)", sj.band("price", within=0.5)),
        ("band('x', 'y', lower=-3, upper=10)", sj.band("x", "y", lower=-3, upper=10)),
        ("band('ts', within='250ms')", sj.band("ts", within="250ms")),
        ("band('x', lower=-3)", sj.band("x", lower=-3)),
        ("greater_equal('x', 'y', offset='5s')", sj.greater_equal("x", "y", offset="5s")),
        ("bands('a', 'b', ranges=[(-5, 5), (20, 35)])", sj.bands("a", "b", ranges=[(-5, 5), (20, 35)])),
        ("equal('symbol')", sj.equal("symbol")),
        ("not_equal('a', 'b')", sj.not_equal("a", "b")),
        ("less('a', 'b')", sj.less("a", "b")),
        ("less_equal('a', 'b')", sj.less_equal("a", "b")),
        ("greater('a', right='b')", sj.greater("a", "b")),
        ("greater_equal('a', 'b')", sj.greater_equal("a", "b")),
        ("equal('s') & band('p', within=1)", sj.equal("s") & sj.band("p", within=1)),
        (" sj.equal('s')&\nslidejoin.less('p') ", sj.equal("s") & sj.less("p")),
        (
            "equal('a') & (equal('b') & less('c')) & less('d')",
            sj.equal("a") & sj.equal("b") & sj.less("c") & sj.less("d"),
        ),
    ],
)
def test_conditions(written, meant):
    assert parse_condition(written) == meant


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("rows(1_000)", sj.rows(1000)),
        ("rows(left=10, right=5)", sj.rows(left=10, right=5)),
        ("within('10s', time='ts')", sj.within("10s", time="ts")),
        ("interval(5, 1, time=('a', 'b'))", sj.interval(5, 1, time=("a", "b"))),
        (
            "sj.interval('-1s', '5s', time='ts', lateness='2s')",
            sj.interval("-1s", "5s", time="ts", lateness="2s"),
        ),
    ],
)
def test_windows(written, meant):
    assert parse_window(written) == meant


def test_what_prints_a_condition_is_read_back():
    on = sj.equal("s") & sj.bands("a", "b", ranges=[(-5, 0.25), (20, 35)]) & sj.band("t", within="5s")
    assert parse_condition(repr(on)) == on


@pytest.mark.parametrize("what", ["condition", "window"])
def test_examples_are_right(what):
    parse = {"condition": parse_condition, "window": parse_window}[what]
    assert parse(EXAMPLES[what]) is not None


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("", "cannot be read"),
        ("band('price', within=0.5", "cannot be read"),
        ("price < 5", "a comparison; write less("),
        ("'a' == 'b'", "a comparison; write equal("),
        ("'a' in 'b'", "a comparison; write band("),
        ("bnad('price', within=1)", "did you mean 'band'?"),
        ("near('price')", "expected one of band, bands, equal"),
        ("rows(5)", "use --window"),
        ("equal('a') and equal('b')", "is not joined by &"),
        ("equal('a') | equal('b')", "is not joined by &"),
        ("~equal('a')", "negated"),
        ("not equal('a')", "negated"),
        ("'price'", "'price' is not a condition"),
        ("band(price, within=1)", "names of columns are in quotes: 'price'"),
        ("band('p', within=2**3)", "2 ** 3 in band(...) is not a literal"),
        ("band('p', within=1+1)", "not a literal"),
        ("band('p', withn=1)", "unexpected keyword argument 'withn'"),
        ("band('p', within=1, within=2)", "has within= twice"),
        ("band()", "missing a required argument: 'left'"),
        ("band('p', 'q', 'r', within=1)", "too many positional"),
        ("band(*['p'], within=1)", "not a literal"),
        ("band(**{'left': 'p'})", "not a literal"),
        ("equal('a') & 5", "5 is not a condition"),
        ("(lambda: equal('a'))()", "there is no lambda"),
        ("equal('a').conjuncts", "is not a condition"),
        ("sj.predicate.equal('a')", "there is no predicate.equal"),
        ("equal('a'); equal('b')", "cannot be read"),
        ("x := equal('a')", "cannot be read"),
        ("equal('a\0')", "cannot be read"),
        ("(" * 5000 + "equal('a')" + ")" * 4000, "cannot be read"),
        ("equal('" + "a" * 10_000 + "')", "10,000 are the most"),
    ],
)
def test_conditions_that_are_refused(written, says):
    with pytest.raises(SpecError) as refused:
        parse_condition(written)
    assert says in str(refused.value)
    assert EXAMPLES["condition"] in str(refused.value)


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("5", "5 is not a window"),
        ("band('price', within=1)", "use --on"),
        ("row(5)", "did you mean 'rows'?"),
        ("rows(n)", "not a literal"),
        ("interval('5s')", "missing a required argument: 'after'"),
        ("rows(5) & rows(6)", "is not a window"),
        ("within('10 parsecs', time='ts')", "10 parsecs"),
        ("rows(0)", "is empty"),
    ],
)
def test_windows_that_are_refused(written, says):
    with pytest.raises(SpecError, match=r"window|duration") as refused:
        parse_window(written)
    assert says in str(refused.value)


@pytest.mark.parametrize("parse", [parse_condition, parse_window])
@pytest.mark.parametrize(
    "attack",
    [
        "__import__('os').system('touch {}')",
        "equal(__import__('os').system('touch {}'))",
        "equal(open('{}', 'w'))",
        'rows(n=exec(\'open("{}", "w")\'))',
        "[open('{}', 'w') for _ in (1,)][0]",
        "equal(f\"{{open('{}', 'w')}}\")",
    ],
)
def test_nothing_is_evaluated(tmp_path, parse, attack):
    file = tmp_path / "evaluated"
    with pytest.raises(SpecError):
        parse(attack.format(file))
    assert not file.exists()


LITERALS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5)
    | st.complex_numbers(),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner)
    | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)  # fmt: skip


@given(
    name=st.sampled_from([*text.CONDITIONS, *text.WINDOWS]),
    arguments=st.lists(LITERALS, max_size=3),
    options=st.dictionaries(
        st.sampled_from(["right", "within", "lower", "upper", "ranges", "time", "lateness", "late", "left"]),
        LITERALS,
        max_size=3,
    ),
)
def test_any_literals_are_taken_or_refused_in_words(name, arguments, options):
    words = [repr(argument) for argument in arguments] + [
        f"{key}={value!r}" for key, value in options.items()
    ]
    parse = parse_condition if name in text.CONDITIONS else parse_window
    with contextlib.suppress(SpecError):  # any other error fails
        parse(f"{name}({', '.join(words)})")


def test_docstrings():
    assert doctest.testmod(text).attempted > 0
    assert doctest.testmod(text).failed == 0
