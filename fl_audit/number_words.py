"""Numbers as people read them: three significant digits."""

import math

_MINUS = "−"
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def significant(value: float, digits: int = 3) -> str:
    """A number to so many significant digits.

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
    """An epsilon, possibly infinite; None is unknown.

    >>> [epsilon_text(value) for value in (4.5, math.inf, None)]
    ['4.50', '∞', 'unknown']
    """
    return "unknown" if value is None else significant(value)


def count(number: int, noun: str) -> str:
    """A number of things.

    >>> count(1, "round"), count(12345, "round")
    ('1 round', '12,345 rounds')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
