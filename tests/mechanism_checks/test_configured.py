"""What the config says of an aggregate."""

import numpy as np

from fl_audit.mechanism_checks import configured


def test_of_one_round_and_of_several():
    """Noise 0.5 x 2 on a sum of 20 updates of length 2, a tenth of it."""
    one = configured(2.0, 20.0, sum_noise_multiplier=0.5, denominator=10.0)
    assert (one.stddev, one.norm_bound) == (0.1, 4.0)
    rounds = configured(
        np.array([2.0, 4.0]), np.array([20.0, 5.0]), sum_noise_multiplier=0.5, denominator=10.0
    )
    np.testing.assert_allclose(rounds.stddev, [0.1, 0.2])
    np.testing.assert_allclose(rounds.norm_bound, [4.0, 2.0])
