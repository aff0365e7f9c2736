"""The mixture of lost and whole canaries that fits best, and what a check says that is too wide."""

import dataclasses
import math

import numpy as np
import pytest

from fl_audit.checks import check_canaries
from fl_audit.checks.canary_projections import CanaryParticipations, coefficient, uneven

COUNT, DIM = 200, 10_000


def participations(share: np.ndarray, rest: float) -> CanaryParticipations:
    """Canaries of a share of a client's length each, beside a rest of an aggregate."""
    noise = np.random.default_rng(1).normal(0, rest / DIM**0.5, COUNT)
    lengths = np.hypot(share, rest)
    return CanaryParticipations(
        canaries=np.arange(COUNT),
        rounds=np.arange(COUNT),
        cosines=(share + noise) / lengths,
        aggregate_lengths=lengths,
        client_lengths=np.ones(COUNT),
        others=np.zeros(COUNT),
        is_first=np.ones(COUNT, bool),
        dim=DIM,
        knows_tails=True,
    )


def test_half_of_the_canaries_lost_is_found():
    shown = participations(np.where(np.arange(COUNT) % 2, 1.0, 0.0), rest=1.0)
    found = uneven(shown, coefficient(shown, 1.0))
    assert found.arriving == pytest.approx(0.5, abs=0.01)
    assert found.share == pytest.approx(1.0, abs=0.01)
    assert found.log_e_value > 50


def test_canaries_that_are_all_short_are_no_mixture():
    """They are so far from whole that no part of them has any weight as such."""
    shown = participations(np.full(COUNT, 0.05), rest=0.1)
    found = uneven(shown, coefficient(shown, 1.0))
    assert math.isfinite(found.arriving) and math.isfinite(found.share)
    assert found.log_e_value < 0


def part(share: float, rest: float, count: int) -> CanaryParticipations:
    whole = participations(np.full(COUNT, share), rest)
    return whole.where(np.arange(COUNT) < count)


def test_a_check_that_is_merely_wide_says_how_many_participations_would_do():
    """Eleven canaries in noise of 80 clients' length: an error of a quarter, instead of 0.11."""
    found = check_canaries(part(1.0, 80.0, 11), part(0.0, 80.0, 11), {})
    assert found.state == "cannot_tell"
    assert "excluded" not in found.reason
    assert "the noise is too large to tell, and about" in found.reason
    enough = int(found.reason.rsplit("about ", 1)[1].split()[0])
    found = check_canaries(part(1.0, 80.0, enough), part(0.0, 80.0, enough), {})
    assert found.state == "arrived"


def scored(deviations: float, dim: int) -> CanaryParticipations:
    """Canaries each in a round of its own, some deviations above chance, without known norms."""
    noise = np.random.default_rng(1).standard_normal(COUNT)
    unknown = np.full(COUNT, np.nan)
    return dataclasses.replace(
        participations(np.ones(COUNT), 1.0),
        cosines=(deviations + noise) / math.sqrt(dim),
        aggregate_lengths=unknown,
        client_lengths=unknown,
        dim=dim,
    )


@pytest.mark.parametrize("dim", [2_000, 10_000_000])
@pytest.mark.parametrize(
    ("included", "excluded", "state", "words"),
    [
        (1.0, 0.0, "arrived", "above chance"),
        (-1.0, 0.0, "not_arrived", "wrong sign"),
        (30.0, 10.0, "not_arrived", "excluded ones, which send nothing"),
        (0.0, 0.0, "cannot_tell", "no more than by chance"),
    ],
)
def test_without_norms_the_error_is_that_of_a_mean_of_cosines(
    included, excluded, state, words, dim
):
    found = check_canaries(scored(included, dim), scored(excluded, dim), {})
    assert found.state == state and words in found.reason
    assert f" ± {1 / math.sqrt(COUNT):.2g} standard deviations" in found.reason


@pytest.mark.parametrize(
    ("share", "causes"),
    [
        (1.55, "each tensor clipped by itself, which lets n tensors be √n clip norms long, not"),
        (2.0, "sent twice, each tensor clipped by itself"),
        (3.0, "sent 3 times, each tensor clipped by itself"),
        (1e3, "not clipped, or another denominator"),
    ],
)
def test_longer_canaries_are_explained_by_how_much_longer(share, causes):
    found = check_canaries(part(share, 5.0, COUNT), part(0.0, 5.0, COUNT), {})
    assert found.state == "not_arrived"
    assert f"longer than a client's update may be ({causes}" in found.fault
