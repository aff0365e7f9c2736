"""Numbers as people read them."""

import math

import pytest

from fl_audit.number_words import significant


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1.00"),
        (0.9996, "1.00"),  # rounding may add a digit before the point
        (999.6, "1,000"),
        (12_345.0, "12,300"),
        (999_999.0, "1.00 × 10⁶"),
        (0.00123, "0.00123"),
        (0.0001234, "1.23 × 10⁻⁴"),
        (-3.14159, "−3.14"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
    ],
)
def test_three_significant_digits(value, text):
    assert significant(value) == text
