"""One release has one upper bound, whichever versions of NumPy and dp-accounting compute it."""

import json

import pytest

from tests.accounting.sixty_releases import CASES, RECORDED

EXPECTED = json.loads(RECORDED.read_text())

SLOW = ("CyclicPoisson", "Allocated", "MinSeparation", "BallsInBins")
"""Ways of drawing rounds whose accountants take seconds, by the same code as the others'."""


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name.startswith(SLOW) else ()) for name in CASES],
)
def test_a_release_has_the_epsilons_that_are_recorded(name):
    if name.startswith("FixedSizeSampling"):
        pytest.importorskip("dp_accounting", reason="it accounts for samples of fixed size")
    compute, release, delta = CASES[name]
    for found, expected in zip(compute(release, delta), EXPECTED[name], strict=True):
        assert found == (expected and pytest.approx(expected, rel=1e-6))


def test_sixty_releases_are_recorded():
    assert list(EXPECTED) == list(CASES) and len(CASES) == 60
