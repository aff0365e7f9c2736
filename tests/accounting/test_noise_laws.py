"""Noise laws by name, and one from outside the package."""

import pytest

from fl_audit.accounting import (
    ADD_OR_REMOVE,
    ZERO_OUT,
    NoiseLaw,
    PoissonSampling,
    Release,
    account,
    noise_law_named,
    none_known,
    register_noise_law,
    remove_noise_law,
)
from tests.accounting.releases import release

LAPLACE = NoiseLaw(
    name="laplace",
    guarantee=lambda run, party, delta: none_known(party.participations, f"{run.rounds} rounds"),
    counts_drawing=True,
    release_assumptions=("Everything is released.",),
    noise_assumption="Noise is exactly Laplacian.",
)


def drawn(law: str) -> Release:
    return release(1.0, PoissonSampling(0.1), rounds=10, law=law)


@pytest.fixture
def laplace():
    register_noise_law(LAPLACE)
    yield
    remove_noise_law("laplace")


def test_a_law_from_outside(laplace):
    accounting = account(drawn("laplace"), 1e-5)
    assert accounting.client.by_accountant[0].reason == "10 rounds"
    assert accounting.neighbours == ADD_OR_REMOVE
    assert accounting.assumes[1] == "Everything is released."
    assert "probability 0.1" in accounting.assumes[2]
    assert accounting.assumes[-1] == "Noise is exactly Laplacian."
    with pytest.raises(ValueError, match="'laplace' is registered already"):
        register_noise_law(LAPLACE)


@pytest.mark.parametrize("law", ["tree", "skellam"])
def test_laws_that_count_nothing_on_drawn_rounds(law):
    accounting = account(drawn(law), 1e-5)
    assert accounting.neighbours == ZERO_OUT
    assert any(said.startswith("Nothing is gained from the order") for said in accounting.assumes)


def test_an_unknown_law_is_never_taken_for_gaussian():
    with pytest.raises(ValueError, match="must be one of gaussian, tree, skellam, got 'laplace'"):
        account(drawn("laplace"), 1e-5)


def test_names():
    assert noise_law_named("tree").name == "tree"
