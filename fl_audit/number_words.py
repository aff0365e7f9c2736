"""Numbers as text: three significant digits, and bounds that stay valid when rounded."""

import decimal
import math

_MINUS = "−"
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


_COMPUTED_DIGITS = decimal.Context(prec=9)
"""Keeps 9 digits of a bound before it is rounded up or down; later digits are rounding errors."""


def significant(value: float, digits: int = 3, rounding: str = decimal.ROUND_HALF_EVEN) -> str:
    """A number with `digits` significant digits; `rounding` is a mode of `decimal`.

    >>> [significant(value) for value in (0.0, 0.4567, 4.5, 51312, 2.5e-7, -math.inf)]
    ['0', '0.457', '4.50', '51,300', '2.50 × 10⁻⁷', '−∞']
    """
    sign = _MINUS if value < 0 else ""
    size = abs(value)
    if math.isinf(size):
        return f"{sign}∞"
    if size == 0:
        return "0"
    rounded_to = decimal.Context(prec=digits, rounding=rounding)
    exact = decimal.Decimal(size)
    if rounding != decimal.ROUND_HALF_EVEN:
        exact = _COMPUTED_DIGITS.plus(exact)
    mantissa, _, exponent = f"{rounded_to.plus(exact):.{digits - 1}e}".partition("e")
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


def lower_bound_text(value: float | None) -> str:
    """A lower bound as text, rounded down, so that the printed number is a bound too.

    >>> [lower_bound_text(value) for value in (11.67, 99.96, 4.5, 0.0, math.inf)]
    ['11.6', '99.9', '4.50', '0', '∞']
    """
    return "unknown" if value is None else significant(value, rounding=decimal.ROUND_DOWN)


def upper_bound_text(value: float | None) -> str:
    """An upper bound as text, rounded up, so that the printed number is a bound too.

    >>> [upper_bound_text(value) for value in (15.21, 4.5, math.inf, None)]
    ['15.3', '4.50', '∞', 'unknown']
    """
    return "unknown" if value is None else significant(value, rounding=decimal.ROUND_UP)


def delta_text(value: float) -> str:
    """A delta with as many digits as needed, at most three.

    >>> [delta_text(value) for value in (1e-3, 0.05, 1e-5, 2.384e-6, 0.0)]
    ['0.001', '0.05', '10⁻⁵', '2.38 × 10⁻⁶', '0']
    """
    mantissa, times, power = significant(value).partition(" × ")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return power if times and mantissa == "1" else f"{mantissa}{times}{power}"


def share_text(part: float, whole: float) -> str:
    """A part in percent of a whole, rounded down, so that only the whole is 100.

    >>> share_text(15.19, 15.2), share_text(15.2, 15.2), share_text(0.1, 15.2)
    ('99', '100', '0.65')
    """
    return significant(100 * part / whole, 2, rounding=decimal.ROUND_DOWN)


def count(number: int, noun: str) -> str:
    """A number with its noun, in the plural if needed.

    >>> count(1, "round"), count(12345, "round")
    ('1 round', '12,345 rounds')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def duration(seconds: float) -> str:
    """A duration; from a minute on, in its two largest units.

    >>> [duration(seconds) for seconds in (3.21, 420.0, 754.0, 7384.0, 200_000.0)]
    ['3.2 s', '7 min', '12 min 34 s', '2 h 3 min', '2 days 7 h']
    """
    if seconds < 60:
        return f"{significant(seconds, 2)} s"
    units = (("days", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    first = next(i for i, (_, length) in enumerate(units) if round(seconds) >= length)
    (name, length), (smaller, part) = units[first : first + 2]
    whole, rest = divmod(round(seconds), length)
    name = "day" if name == "days" and whole == 1 else name
    return f"{whole} {name}" + (f" {rest // part} {smaller}" if rest >= part else "")
