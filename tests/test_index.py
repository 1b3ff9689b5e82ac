"""Indexes by name: what may be written, what is refused, and that joins take every value they promise."""

import numpy as np
import pyarrow as pa
import pytest

import slidejoin as sj
from slidejoin.index import PARAMETERS, check_index, parse_index

WITH_PARAMETERS = [(name, parameter) for name in PARAMETERS for parameter in PARAMETERS[name]]
EVERY_PARAMETER = pytest.mark.parametrize(
    ("name", "parameter"), WITH_PARAMETERS, ids=[f"{name}-{p.name}" for name, p in WITH_PARAMETERS]
)


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_name_alone(name):
    assert parse_index(name) == parse_index(f"{name}()") == parse_index(f"{name} ( )") == (name, {})


def test_parameters_as_text():
    assert parse_index("pim-tree(merge_ratio=0.0625, insertion_depth=3)") == (
        "pim-tree",
        {"merge_ratio": 0.0625, "insertion_depth": 3},
    )
    assert parse_index("bi-sort( subwindows = 4 ,buffer=64,)") == ("bi-sort", {"subwindows": 4, "buffer": 64})
    assert parse_index("im-tree(merge_ratio=1e-3)") == ("im-tree", {"merge_ratio": 0.001})
    assert parse_index("im-tree(merge_ratio=1)") == ("im-tree", {"merge_ratio": 1.0})
    assert isinstance(parse_index("bi-sort(subwindows=4)")[1]["subwindows"], int)
    assert isinstance(parse_index("im-tree(merge_ratio=1)")[1]["merge_ratio"], float)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "btree",
        "B-Tree",
        " b-tree",
        "b-tree(",
        "b-tree)",
        "b-tree()x",
        "b tree",
        "(b-tree)",
        None,
        3,
        ["b-tree"],
    ],
)
def test_unknown_names(text):
    with pytest.raises(sj.SpecError, match=r"expected one of nested-loop, b-tree, .*auto"):
        parse_index(text)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("btree", "b-tree"), ("B-Tree", "b-tree"), ("bucket_tree", "bucket-tree"), ("pim", "pim-tree"),
        ("pim_tree(merge_ratio=0.1)", "pim-tree"), ("bucket-tre(min_entries=3)", "bucket-tree"),
        ("BI-SORT(buffer=4)", "bi-sort"), ("pim-tree(merge_rato=0.1)", "merge_ratio"),
        ("bi-sort(buffers=4)", "buffer"),
    ],
)  # fmt: skip
def test_misspelt_names(text, meant):
    with pytest.raises(sj.SpecError) as caught:
        parse_index(text)
    assert str(caught.value).endswith(f"; did you mean {meant!r}?")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("b-tree(fanout=3)", "'fanout=3' is not a parameter of b-tree, which has none"),
        ("auto(subwindows=3)", "'subwindows=3' is not a parameter of auto, which has none"),
        ("im-tree(insertion_depth=2)", "not a parameter of im-tree, which has merge_ratio"),
        ("pim-tree(merge_ratio)", "'merge_ratio' is not a parameter of pim-tree"),
        ("pim-tree(0.5)", "'0.5' is not a parameter"),
        ("pim-tree(=0.5)", "'=0.5' is not a parameter"),
        ("pim-tree(Merge_Ratio=0.5)", "is not a parameter"),
        ("bi-sort(runs=2)", "'runs=2' is not a parameter"),
        ("bi-sort(buffer=4, subwindows=4, buffer=4)", "buffer is given twice"),
        ("bi-sort(buffer=4; subwindows=4)", "buffer=4; subwindows=4; expected a whole number"),
        ("bi-sort(buffer=4.0)", "buffer=4.0; expected a whole number from 0 to 16777216"),
        ("bi-sort(buffer=)", "buffer=; expected a whole number"),
        ("bi-sort(buffer==4)", "expected a whole number"),
        ("bi-sort(buffer=many)", "buffer=many; expected a whole number"),
        ("bi-sort(buffer=1e3)", "expected a whole number"),
        ("im-tree(merge_ratio=half)", "merge_ratio=half; expected a number from 0.0009765625 to 1.0"),
        ("im-tree(merge_ratio=1/8)", "expected a number"),
    ],
)
def test_unknown_parameters_and_no_numbers(text, message):
    with pytest.raises(sj.SpecError) as caught:
        parse_index(text)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"index={text!r}")


@EVERY_PARAMETER
def test_values_out_of_range(name, parameter):
    step = 1 if parameter.whole else 1e-9
    below, above = parameter.least - step, parameter.most + step
    for value in (below, above, -1, -parameter.most, "nan", "inf", "-inf", 10**30, ""):
        with pytest.raises(sj.SpecError, match=f"{parameter.name}=.*expected a (whole )?number from"):
            parse_index(f"{name}({parameter.name}={value})")


@EVERY_PARAMETER
def test_the_default_and_both_ends_are_in_range(name, parameter):
    assert parameter.least <= parameter.default <= parameter.most
    for value in (parameter.least, parameter.default, parameter.most):
        assert parse_index(f"{name}({parameter.name}={value!r})") == (name, {parameter.name: value})


def joined(index):
    """Pairs of a stream that outgrows its window several times."""
    rng = np.random.default_rng(1)
    n = 9000
    join = sj.NumericJoin((1500, 1200), -2, 3, np.int32, index)
    sides, keys = rng.integers(0, 2, n, np.uint8), (rng.normal(0, 500, n)).astype(np.int32)
    pairs = [join.push(sides[i : i + 1000], keys[i : i + 1000]) for i in range(0, n, 1000)]
    join.check()
    assert join.spec.index == index
    return np.concatenate(pairs, axis=1)


@EVERY_PARAMETER
def test_joins_take_both_ends(name, parameter):
    wanted = joined("b-tree")
    for value in (parameter.least, parameter.most):
        np.testing.assert_array_equal(joined(f"{name}({parameter.name}={value!r})"), wanted)


@pytest.mark.parametrize("name", [name for name in PARAMETERS if len(PARAMETERS[name]) > 1])
def test_joins_take_all_ends_together(name):
    wanted = joined("b-tree")
    for end in ("least", "most"):
        given = ", ".join(f"{p.name}={getattr(p, end)!r}" for p in PARAMETERS[name])
        np.testing.assert_array_equal(joined(f"{name}({given})"), wanted)


def test_joins_refuse_what_is_refused_here():
    for index in ("b-tre", "bi-sort(buffer=-1)", "im-tree(merge_ratio=nan)", "b-tree(x=1)"):
        with pytest.raises(sj.SpecError, match="index="):
            sj.NumericJoin(10, 0, 0, np.int32, index=index)
        with pytest.raises(sj.SpecError, match="index="):
            sj.WindowJoin(sj.equal("k"), 10, index=index)


def test_auto_is_left_to_the_core():
    assert parse_index("auto") == ("auto", {})
    assert check_index("auto") == "auto"
    for window in (1, 10**6, sj.within(10)):
        assert sj.NumericJoin(window, 0, 0, np.int32).index in PARAMETERS


def test_a_given_index_is_kept_as_it_is_written():
    text = "bi-sort(subwindows=4)"
    assert check_index(text) == text
    for index in ("auto", "b-tree", "nested-loop"):
        join = sj.WindowJoin(sj.equal("k"), 1000, index=index)
        join.push(left=pa.table({"k": [1]}))
        again = sj.WindowJoin.restore(join.snapshot())
        assert again.spec.index == join.spec.index
