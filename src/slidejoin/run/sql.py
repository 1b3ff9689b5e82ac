"""Conditions as SQL-like text: ``left.symbol = right.symbol and abs(left.price - right.price) <= 0.05``.

A recursive-descent parser, nothing is evaluated::

    condition  = comparison { "and" comparison }        | "(" condition ")"
    comparison = sum ( operator sum )+                  a <= b <= c is a <= b and b <= c
               | sum "between" sum "and" sum
               | "abs" "(" sum ")" ( "<=" | "<" ) sum
    sum        = term { ("+" | "-") term }
    term       = "left." name | "right." name | number | duration | "-" term | "(" sum ")"

Every comparison becomes ``left + offset operator right``, the form of the predicates: a difference of one
left and one right column. ``>=`` and ``<=`` on one pair of columns become one ``band``.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from typing import NamedTuple, TypeVar

from slidejoin import predicate
from slidejoin.errors import SpecError
from slidejoin.predicate import Predicate
from slidejoin.run.sql_tokens import END, NAME, NUMBER, SIGN, TEXT, Token, refusal, tokens
from slidejoin.window import format_duration, parse_duration

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}
_COMPARISONS: dict[str, Callable[..., Predicate]] = {
    "<": predicate.less,
    "<=": predicate.less_equal,
    ">": predicate.greater,
    ">=": predicate.greater_equal,
}
_SAME = {"==": "=", "!=": "<>"}
_OPERATORS = (*_FLIPPED, *_SAME)
_MAX_DEPTH = 50

T = TypeVar("T")


def is_sql(text: str) -> bool:
    """Whether a condition is in this form: it names a column as ``left.x`` or ``right.x``, outside quotes."""
    try:
        found = tokens(text)
    except SpecError:
        return "left." in text or "right." in text
    return any(token.is_word("left", "right") and after.text == "." for token, after in pairwise(found))


def refuse_sideless(text: str) -> None:
    """Raise SpecError for a condition of this form whose columns have no side: ``symbol = symbol``."""
    try:
        found = tokens(text)
    except SpecError:
        return
    depth, is_written_so = 0, False
    for token in found:
        depth += (token.text == "(") - (token.text == ")") if token.kind == SIGN else 0
        is_written_so |= depth == 0 and (
            token.is_word("and", "between") or (token.kind == SIGN and token.text in ("=", "<>"))
        )
    names = [
        token
        for token, after in pairwise(found)
        if (token.kind == NAME or token.is_word())
        and not token.is_word("and", "between", "abs", "interval", "or", "not")
        and after.text != "("
    ]
    if is_written_so and names:
        name = names[0].text if names[0].kind != NAME else f'"{names[0].text}"'
        raise refusal(
            text,
            names[0].at,
            f"a column needs its side: write left.{name} or right.{name}, such as left.{name} = right.{name}",
        )


def parse_sql(text: str) -> Predicate:
    """Read a condition.

    Examples
    --------
    >>> parse_sql("left.symbol = right.symbol and abs(left.price - right.price) <= 0.05")
    equal('symbol') & band('price', within=0.05)
    >>> parse_sql("right.x between left.y - 3 and left.y + 10")
    band('y', 'x', lower=-3, upper=10)
    """
    return _Parser(text).whole()


@dataclass(frozen=True)
class _Sum:
    """``left`` and ``right`` columns, each added (1) or subtracted (-1), and a number or a duration."""

    at: int  # where it begins in the text
    columns: tuple[tuple[str, str, int], ...] = ()  # side, name, sign
    number: Fraction = Fraction(0)
    is_timed: bool = False  # whether the number is in nanoseconds

    def negated(self) -> "_Sum":
        columns = tuple((side, name, -sign) for side, name, sign in self.columns)
        return replace(self, columns=columns, number=-self.number)


class _Comparison(NamedTuple):
    """``left + offset op right``."""

    op: str
    left: str
    right: str
    offset: Fraction
    is_timed: bool
    at: int


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens(text)
        self._next = 0
        self._depth = 0

    def whole(self) -> Predicate:
        found = self._conjunction()
        if self._token.kind != END:
            raise self._unexpected("'and' or the end of the condition")
        return reduce(operator.and_, self._predicates(found))

    # --- tokens ---

    @property
    def _token(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._token
        self._next += 1
        return token

    def _accept(self, *texts: str) -> Token | None:
        token = self._token
        is_it = token.is_word(*texts) or (token.kind not in (NAME, TEXT) and token.text in texts)
        return self._take() if is_it else None

    def _expect(self, text: str) -> Token:
        token = self._accept(text)
        if token is None:
            raise self._unexpected(f"'{text}'")
        return token

    def _unexpected(self, expected: str) -> SpecError:
        token = self._token
        if token.is_word("or"):
            return self._error(
                token.at, "conditions are joined by 'and' only; a union of bands is bands(...)"
            )
        if token.is_word("not"):
            return self._error(token.at, "there is no 'not'; write <> or the comparison the other way round")
        given = "the end" if token.kind == END else repr(token.text)
        return self._error(token.at, f"expected {expected}, not {given}")

    def _error(self, at: int, why: str) -> SpecError:
        return refusal(self._text, at, why)

    # --- grammar ---

    def _conjunction(self) -> list[_Comparison]:
        found = self._condition()
        while self._accept("and"):
            found += self._condition()
        return found

    def _condition(self) -> list[_Comparison]:
        if self._token.text == "(" and self._holds_condition():
            self._take()
            found = self._nested(self._conjunction)
            self._expect(")")
            return found
        if self._token.is_word("abs"):
            return self._distance()
        first = self._sum()
        if self._accept("between"):
            lower = self._sum()
            self._expect("and")
            return [self._comparison(lower, "<=", first), self._comparison(first, "<=", self._sum())]
        found = []
        while (token := self._accept(*_OPERATORS)) is not None:
            if self._token.is_word("abs"):
                raise self._error(self._token.at, "abs(...) stands on the left: abs(left.x - right.x) <= 5")
            second = self._sum()
            found.append(self._comparison(first, _SAME.get(token.text, token.text), second))
            first = second
        if not found:
            raise self._unexpected("a comparison (= <> < <= > >=) or 'between'")
        return found

    def _holds_condition(self) -> bool:
        """Whether the parenthesis here has a comparison in it, at its own level, or is part of a sum."""
        depth = 0
        for token in self._tokens[self._next :]:
            depth += (token.text == "(") - (token.text == ")") if token.kind not in (NAME, TEXT) else 0
            if depth == 0:
                return False
            if token.is_word("and", "between") or (
                token.kind not in (NAME, TEXT) and token.text in _OPERATORS
            ):
                return True
        return False

    def _distance(self) -> list[_Comparison]:
        """``abs(left.x - right.x) <= number``."""
        at = self._take().at
        self._expect("(")
        inner = self._nested(self._sum)
        self._expect(")")
        token = self._accept("<=", "<")
        if token is None:
            raise self._unexpected("<= or < after abs(...)")
        reach = self._sum()
        if reach.columns:
            raise self._error(reach.at, "expected a number or a duration, not a column")
        if reach.number < 0:
            raise self._error(reach.at, "a distance is never negative; expected 0 or more")
        return [
            self._comparison(replace(inner, at=at), token.text, reach),
            self._comparison(replace(reach.negated(), at=at), token.text, inner),
        ]

    def _sum(self) -> _Sum:
        total = self._term()
        while (token := self._accept("+", "-")) is not None:
            term = self._term()
            total = self._added(total, term if token.text == "+" else term.negated(), term.at)
        if (token := self._accept("*", "/", "%")) is not None:
            raise self._error(
                token.at, f"there is no {token.text}; columns are added to numbers, or subtracted"
            )
        return total

    def _term(self) -> _Sum:
        token = self._token
        if self._accept("-"):
            return replace(self._nested(self._term).negated(), at=token.at)
        if self._accept("+"):
            return self._nested(self._term)
        if self._accept("("):
            inner = self._nested(self._sum)
            self._expect(")")
            return inner
        if self._accept("interval"):
            if self._token.kind != TEXT:
                raise self._unexpected("a duration in quotes, such as '5s'")
            token = self._token
        if token.kind == TEXT:
            self._take()
            try:
                return _Sum(token.at, (), *parse_duration(token.text))
            except SpecError as error:
                raise self._error(token.at, str(error)) from None
        if token.kind == NUMBER:
            self._take()
            return _Sum(token.at, (), *token.number())
        return self._column()

    def _column(self) -> _Sum:
        side = self._token
        if not side.is_word("left", "right"):
            after = self._tokens[self._next + 1] if side.kind != END else side
            if side.is_word() and after.text == "(":
                raise self._error(side.at, f"there is no function {side.text}; the only one is abs(...)")
            if side.kind == NAME or (side.is_word() and not side.is_word("and", "or", "not", "between")):
                bare = side.text
                raise self._error(side.at, f"which side has {bare!r}? Write left.{bare} or right.{bare}")
            raise self._unexpected("a column (left.x or right.x), a number or a duration")
        self._take()
        self._expect(".")
        name = self._token
        if not (name.is_word() or name.kind == NAME):
            raise self._unexpected('the name of a column; other than plain names are in quotes: left."a b"')
        self._take()
        return _Sum(side.at, ((side.text.lower(), name.text, 1),))

    def _nested(self, parse: Callable[[], T]) -> T:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._error(self._token.at, f"more than {_MAX_DEPTH} levels of parentheses")
        found = parse()
        self._depth -= 1
        return found

    # --- meaning ---

    def _added(self, a: _Sum, b: _Sum, at: int) -> _Sum:
        if (a.number and b.number) and a.is_timed != b.is_timed:
            raise self._error(at, "a plain number and a duration do not add up; give both a unit, or none")
        is_timed = (a.is_timed and a.number != 0) or (b.is_timed and b.number != 0)
        return _Sum(a.at, a.columns + b.columns, a.number + b.number, is_timed)

    def _comparison(self, a: _Sum, op: str, b: _Sum) -> _Comparison:
        """Bring ``a op b`` into the form ``left + offset op right``."""
        total = self._added(a, b.negated(), b.at)  # total op 0
        if sorted(side for side, _, _ in total.columns) != ["left", "right"]:
            raise self._error(
                a.at, "expected one column of left and one of right in a comparison, "
                f"not {' and '.join(f'{side}.{name}' for side, name, _ in total.columns) or 'none'}"
            )  # fmt: skip
        (_, left, left_sign), (_, right, right_sign) = sorted(total.columns)
        if left_sign == right_sign:
            raise self._error(
                a.at, f"the sum of left.{left} and right.{right} is not compared, only their difference"
            )
        if left_sign < 0:
            total, op = total.negated(), _FLIPPED[op]
        if op == "<>" and total.number:
            raise self._error(a.at, "<> compares columns without a number; leave the number out")
        return _Comparison(op, left, right, total.number, total.is_timed, a.at)

    def _predicates(self, found: list[_Comparison]) -> list[Predicate]:
        """The predicates; <= and >= on one pair of columns are a band."""
        made: list[Predicate] = []
        rest = list(found)
        while rest:
            first = rest.pop(0)
            wanted = {"<=": ">=", ">=": "<="}.get(first.op)
            other = next((c for c in rest if c.op == wanted and c[1:3] == first[1:3]), None)
            if other is not None:
                rest.remove(other)
                low, high = (first, other) if first.op == "<=" else (other, first)
                made.append(self._band(low, high))
            elif first.op == "<>":
                made.append(predicate.not_equal(first.left, first.right))
            elif first.op == "=" and not first.offset:
                made.append(predicate.equal(first.left, first.right))
            elif first.op == "=":
                made.append(self._band(first, first))
            else:
                made.append(_COMPARISONS[first.op](first.left, first.right, offset=_bound(first)))
        return made

    def _band(self, low: _Comparison, high: _Comparison) -> Predicate:
        """``left + low <= right <= left + high``."""
        try:
            return predicate.band(low.left, low.right, lower=_bound(low), upper=_bound(high))
        except SpecError:
            why = "nothing can match: the lower bound is above the upper one"
            if low.is_timed != high.is_timed:
                why = "one bound is a plain number and the other a duration; give both a unit, or none"
            raise self._error(max(low.at, high.at), why) from None


def _bound(comparison: _Comparison) -> Fraction | str:
    return format_duration(comparison.offset) if comparison.is_timed else comparison.offset
