"""Conditions and windows written as text, such as ``band('price', within=0.5) & equal('symbol')``.

The text is parsed, never evaluated: calls of the public functions with literal arguments, conditions joined
by ``&``, and nothing else. Conditions in the form of SQL are read by ``sql``.
"""

import ast
import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from slidejoin import predicate, window
from slidejoin.errors import SpecError, suggestion
from slidejoin.predicate import Predicate
from slidejoin.run.sql import is_sql, parse_sql, refuse_sideless
from slidejoin.window import Window

CONDITIONS = predicate.MAKERS
WINDOWS = window.MAKERS
EXAMPLES = {
    "sql": "left.symbol = right.symbol and abs(left.price - right.price) <= 0.5",
    "condition": "equal('symbol') & band('price', within=0.5)",
    "window": "interval('5s', '1s', time='ts', lateness='10s')",
}
_MAX_LENGTH = 10_000
_OPERATORS = {
    ast.Lt: "less", ast.LtE: "less_equal", ast.Gt: "greater", ast.GtE: "greater_equal",
    ast.Eq: "equal", ast.NotEq: "not_equal",
}  # fmt: skip


def parse_condition(text: str) -> Predicate:
    """Read a condition, in the form of Python or of SQL (``sql``).

    Examples
    --------
    >>> parse_condition("equal('symbol') & band('price', within=0.5)")
    equal('symbol') & band('price', within=0.5)
    >>> parse_condition("left.symbol = right.symbol and abs(left.price - right.price) <= 0.5")
    equal('symbol') & band('price', within=0.5)
    """
    if is_sql(text):
        _check_length("condition", text)
        return parse_sql(text)
    refuse_sideless(text)
    return _condition(_parsed("condition", text))


def parse_window(text: str) -> Window:
    """Read a window.

    Examples
    --------
    >>> parse_window("rows(1_000)")
    rows(1000)
    """
    node = _parsed("window", text)
    if not isinstance(node, ast.Call):
        raise _refusal("window", f"{ast.unparse(node)} is not a window")
    window: Window = _called("window", node, WINDOWS)
    return window


def _parsed(what: str, text: str) -> ast.expr:
    _check_length(what, text)
    try:
        with warnings.catch_warnings(action="ignore"):  # of odd escapes in a text
            return ast.parse(" ".join(text.splitlines()).strip(), mode="eval").body
    except SyntaxError as error:
        raise _refusal(what, f"{text!r} cannot be read ({error.msg}, character {error.offset})") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise _refusal(what, f"the text cannot be read ({error or 'it is nested too deeply'})") from None


def _check_length(what: str, text: str) -> None:
    if len(text) > _MAX_LENGTH:
        raise _refusal(what, f"its text has {len(text):,} characters; {_MAX_LENGTH:,} are the most")


def _condition(node: ast.expr) -> Predicate:
    parts: list[ast.expr] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd):  # a & b & c is (a & b) & c
        parts.append(node.right)
        node = node.left
    if parts:
        first, *others = [_condition(part) for part in (node, *reversed(parts))]
        for other in others:
            first = first & other
        return first
    if isinstance(node, ast.Call):
        condition: Predicate = _called("condition", node, CONDITIONS)
        return condition
    shown = ast.unparse(node)
    if isinstance(node, ast.BoolOp | ast.BinOp):
        raise _refusal("condition", f"{shown} is not joined by &; write bands(...) for a union of bands")
    if isinstance(node, ast.Compare):
        name = _OPERATORS.get(type(node.ops[0]), "band")
        raise _refusal("condition", f"{shown} is a comparison; write {name}('left column', 'right column')")
    if isinstance(node, ast.UnaryOp):
        raise _refusal(
            "condition", f"{shown} is negated; use not_equal, or the comparison the other way round"
        )
    raise _refusal("condition", f"{shown} is not a condition")


def _called(what: str, call: ast.Call, functions: Mapping[str, Callable[..., Any]]) -> Any:
    """The result of a call of one of the functions with literal arguments."""
    name = ast.unparse(call.func).removeprefix("slidejoin.").removeprefix("sj.")
    if name not in functions:
        if name in CONDITIONS or name in WINDOWS:
            option = "--on" if name in CONDITIONS else "--window"
            raise _refusal(what, f"{name}(...) is not a {what}; use {option}")
        meant = suggestion(name, functions) or f"; expected one of {', '.join(functions)}"
        raise _refusal(what, f"there is no {name}(...){meant}")
    function = functions[name]
    arguments = [_literal(what, name, argument) for argument in call.args]
    options: dict[str, Any] = {}
    for keyword in call.keywords:
        if keyword.arg is None:
            raise _refusal(what, f"**{ast.unparse(keyword.value)} in {name}(...) is not a literal")
        if keyword.arg in options:
            raise _refusal(what, f"{name}(...) has {keyword.arg}= twice")
        options[keyword.arg] = _literal(what, name, keyword.value)
    signature = inspect.signature(function)
    try:
        signature.bind(*arguments, **options)
    except TypeError as error:
        shown = ", ".join(signature.parameters)
        raise _refusal(what, f"{name}(...): {error}; its arguments are {shown}") from None
    return function(*arguments, **options)


def _literal(what: str, name: str, node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        shown = ast.unparse(node)
        hint = f"; names of columns are in quotes: {shown!r}" if isinstance(node, ast.Name) else ""
        raise _refusal(what, f"{shown} in {name}(...) is not a literal{hint}") from None


def _refusal(what: str, why: str) -> SpecError:
    sql = f", or {EXAMPLES['sql']}" if what == "condition" else ""
    return SpecError(f"the {what} is not understood: {why}; an example is {EXAMPLES[what]}{sql}")
