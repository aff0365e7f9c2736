"""Which differences between two values of JSON are of last digits alone."""

import pytest

from fl_audit.verification.findings import differences


@pytest.mark.parametrize(
    ("stated", "derived", "kind"),
    [
        (1.0, 1.0 + 1e-12, "last digits"),
        (1e-300, 1.1e-300, "value"),
        (1.0, -1.0, "value"),
        (0.0, 2.0**-52, "value"),
        (0, 2.0**-52, "value"),  # a count
        ("two words", "other words", "words"),
        ("held", "broken", "value"),
    ],
)
def test_kind_of_difference(stated: object, derived: object, kind: str) -> None:
    (found,) = differences({"at": stated}, {"at": derived})
    assert (found.place, found.kind) == ("at", kind)
