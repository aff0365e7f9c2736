"""Which differences between two values of JSON are of last digits alone."""

import pytest

from fl_audit.attacks.compared_vectors import ComparedVectors, write_compared_vectors
from fl_audit.attacks.likelihood_null import LikelihoodNull
from fl_audit.verification.findings import Verified, differences
from fl_audit.verification.score_files import compare_vectors


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


@pytest.mark.parametrize(("factor", "is_found"), [(1.6e-9, False), (2e-3, True)])
def test_rounding_of_a_tiny_factor_is_no_finding(tmp_path, factor, is_found):
    def compared(log_factor):
        null = LikelihoodNull((0.0,), (-1.0,), log_factor)
        return {"likelihood_ratio": ComparedVectors((), likelihood={"": null})}

    verified = Verified()
    write_compared_vectors(tmp_path / "compared.json", compared(1.5e-9))
    compare_vectors(tmp_path / "compared.json", compared(factor), verified)
    assert bool(verified.findings) == is_found
