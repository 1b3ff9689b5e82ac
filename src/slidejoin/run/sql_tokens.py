"""The tokens of an SQL-like condition, each with its place, and errors that point at one."""

from fractions import Fraction
from typing import NamedTuple

from slidejoin.errors import SpecError
from slidejoin.window import parse_duration

WORD, NAME, TEXT, NUMBER, SIGN, END = "word", "name", "text", "number", "sign", "end"
_SIGNS = ("<=", ">=", "<>", "!=", "==", "<", ">", "=", "(", ")", "+", "-", "*", "/", "%", ".", ",")
_QUOTES = {"'": TEXT, '"': NAME, "`": NAME}


class Token(NamedTuple):
    """A piece of the text: a word, a quoted name, a quoted text, a number, a sign or the end."""

    kind: str
    text: str  # without quotes
    at: int

    def is_word(self, *words: str) -> bool:
        """Whether it is one of these words in any case, or any word."""
        return self.kind == WORD and (not words or self.text.lower() in words)

    def number(self) -> tuple[Fraction, bool]:
        """The value of a number, and whether it is a duration in nanoseconds."""
        if self.text[-1].isalpha():
            return parse_duration(self.text)
        text = self.text.replace("_", "")
        return Fraction(int(text) if text.isdecimal() else repr(float(text))), False


def tokens(text: str) -> list[Token]:
    """Cut a condition into tokens; the last one is the end.

    Examples
    --------
    >>> [token.text for token in tokens("left.x <= right.y + 5s")]
    ['left', '.', 'x', '<=', 'right', '.', 'y', '+', '5s', '']
    """
    found: list[Token] = []
    at = 0
    while at < len(text):
        mark = text[at]
        if mark.isspace():
            at += 1
        elif mark in _QUOTES:
            value, after = _quoted(text, at)
            found.append(Token(_QUOTES[mark], value, at))
            at = after
        elif mark in "0123456789" or (mark == "." and text[at + 1 : at + 2] in set("0123456789")):
            after = _number_end(text, at)
            token = Token(NUMBER, text[at:after], at)
            _check_number(text, token)
            found.append(token)
            at = after
        elif mark.isalpha() or mark == "_":
            after = at
            while after < len(text) and (text[after].isalnum() or text[after] == "_"):
                after += 1
            found.append(Token(WORD, text[at:after], at))
            at = after
        else:
            sign = next((sign for sign in _SIGNS if text.startswith(sign, at)), None)
            if sign is None:
                hint = "; conditions are joined by 'and'" if mark in "&|" else ""
                raise refusal(text, at, f"{mark!r} means nothing here{hint}")
            found.append(Token(SIGN, sign, at))
            at += len(sign)
    return [*found, Token(END, "", len(text))]


def refusal(text: str, at: int, why: str) -> SpecError:
    """An error that shows the text with a caret under a place."""
    line = "".join(" " if mark.isspace() else mark for mark in text)
    return SpecError(f"the condition is not understood: {why}\n  {line}\n  {' ' * at}^")


def _quoted(text: str, at: int) -> tuple[str, int]:
    """What a pair of quotes holds, in which a doubled quote stands for one, and the place after it."""
    quote, value, after = text[at], "", at + 1
    while after < len(text):
        if text[after] != quote:
            value += text[after]
            after += 1
        elif text.startswith(quote, after + 1):
            value += quote
            after += 2
        else:
            return value, after + 1
    raise refusal(text, at, f"the quote {quote} is not closed")


def _number_end(text: str, at: int) -> int:
    """The end of a number such as 1_000, .5, 2e-3 or 250ms."""
    after = at
    while after < len(text):
        mark = text[after]
        is_sign = mark in "+-" and text[after - 1] in "eE" and text[after + 1 : after + 2].isdecimal()
        if not (mark.isalnum() or mark in "._" or is_sign):
            break
        after += 1
    return after


def _check_number(text: str, token: Token) -> None:
    try:
        token.number()
    except (SpecError, ValueError, OverflowError):
        why = f"{token.text!r} is not a number, such as 0.5, and not a duration, such as 5s"
        raise refusal(text, token.at, why) from None
