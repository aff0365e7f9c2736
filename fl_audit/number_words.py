"""Numbers as people read them: three significant digits."""

import math

_MINUS = "−"
_ORDINALS = (
    "first", "second", "third", "fourth", "fifth",
    "sixth", "seventh", "eighth", "ninth", "tenth",
)  # fmt: skip
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def significant(value: float, digits: int = 3) -> str:
    """A number with so many significant digits.

    >>> [significant(value) for value in (0.0, 0.4567, 4.5, 51312, 2.5e-7, -math.inf)]
    ['0', '0.457', '4.50', '51,300', '2.50 × 10⁻⁷', '−∞']
    """
    sign = _MINUS if value < 0 else ""
    size = abs(value)
    if math.isinf(size):
        return f"{sign}∞"
    if size == 0:
        return "0"
    mantissa, _, exponent = f"{size:.{digits - 1}e}".partition("e")
    power = int(exponent)
    if -4 < power < 6:
        rounded = float(f"{mantissa}e{exponent}")
        return f"{sign}{rounded:,.{max(digits - 1 - power, 0)}f}"
    return f"{sign}{mantissa} × 10{str(power).translate(_SUPERSCRIPTS)}"


def epsilon_text(value: float | None) -> str:
    """An epsilon, possibly infinite, as text; None is unknown.

    >>> [epsilon_text(value) for value in (4.5, math.inf, None)]
    ['4.50', '∞', 'unknown']
    """
    return "unknown" if value is None else significant(value)


def count(number: int, noun: str) -> str:
    """A number of things in words.

    >>> count(1, "round"), count(12345, "round")
    ('1 round', '12,345 rounds')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def ordinal(number: int) -> str:
    """The place in a list, from 1: a word up to ten, figures beyond.

    >>> ordinal(1), ordinal(10), ordinal(11), ordinal(22), ordinal(113)
    ('first', 'tenth', '11th', '22nd', '113th')
    """
    if number <= len(_ORDINALS):
        return _ORDINALS[number - 1]
    is_teen = number % 100 in (11, 12, 13)
    ending = "th" if is_teen else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"
