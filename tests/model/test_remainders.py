"""Sums over remainders, against going through them."""

from hypothesis import given
from hypothesis import strategies as st

from slidejoin.model.remainders import floor_sums, sum_of_longest

COUNTS = st.integers(0, 50)


@given(COUNTS, st.integers(0, 10**20), st.integers(0, 10**20), st.integers(1, 10**20))
def test_floor_sums_of_large_numbers(count, a, b, c):
    quotients = [(a * m + b) // c for m in range(count)]
    weighted = sum(m * quotient for m, quotient in enumerate(quotients))
    assert floor_sums(count, a, b, c) == (sum(quotients), weighted, sum(q * q for q in quotients))


@given(COUNTS, st.integers(0, 40), st.integers(0, 40), st.integers(1, 30))
def test_floor_sums(count, a, b, c):
    test_floor_sums_of_large_numbers.hypothesis.inner_test(count, a, b, c)


@given(
    COUNTS,
    st.integers(0, 60),
    st.integers(1, 40),
    st.lists(st.integers(-300, 300), min_size=1, max_size=4),
    st.integers(0, 250),
    st.integers(1, 5),
)
def test_sum_of_longest(count, step, period, starts, least, parts):
    expected = sum(
        max(least, *((start - m * step * parts) % (period * parts) for start in starts)) for m in range(count)
    )
    assert sum_of_longest(count, step, period, starts, least, parts) == expected
