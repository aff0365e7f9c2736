"""The simulation behind figures 4 to 9 of Steinke et al. (2023), at a few small points."""

import numpy as np
import pytest

from experiments.steinke2023_training import simulation
from experiments.steinke2023_training.run import bounds
from experiments.steinke2023_training.simulation import Training, train


@pytest.fixture
def noise(monkeypatch):
    """Sets the noise multiplier, which is otherwise found for an epsilon."""

    def known(multiplier):
        monkeypatch.setattr(simulation, "noise_multiplier", lambda *setting: multiplier)

    return known


def test_inner_products_with_dirac_canaries_have_the_law_of_their_noise(noise):
    """Every example in each of 9 steps: means 9 C apart, and deviation 3 C z of the noise."""
    noise(2.0)
    scores = train(Training("dirac", 2000, 0, steps=9, share=1.0)).scores["inner product"]
    unit = 3 * 5.0 * 2.0
    shift = (scores.included.mean() - scores.excluded.mean()) / unit
    assert shift == pytest.approx(3 / 2, abs=5 * 2 / np.sqrt(2000))
    assert scores.excluded.std() / unit == pytest.approx(1, abs=5 / np.sqrt(2000))


@pytest.mark.parametrize("kind", ["mislabelled", "in_distribution"])
def test_images_are_told_apart_without_noise(noise, kind):
    noise(0.0)
    trained = train(Training(kind, 300, 300, steps=60, share=0.5))
    published, valid = bounds(trained)
    assert trained.accuracy > 0.4  # a tenth by chance
    assert published > 0.2
    assert valid <= published
