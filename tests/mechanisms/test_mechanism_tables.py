"""The mechanism tables of a config."""

import math

import pytest

from fl_audit.accounting.gaussian_accountants import account_gaussian
from fl_audit.config import (
    AdaptiveZeroing,
    ClientGaussian,
    Distributed,
    FixedZeroing,
    GaussianFixed,
    NoPrivacy,
    TreeAggregation,
)
from fl_audit.config.file import config_to_toml, load_config
from fl_audit.errors import InputError
from fl_audit.mechanisms import round_noise

CONFIG = """
[task]
kind = "digits"

[participation]
kind = "every_round"
rounds = 3

[canaries]
count = 4

[mechanism]
"""


def read(tmp_path, text):
    path = tmp_path / "config.toml"
    path.write_text(CONFIG + text)
    return load_config(path)


@pytest.mark.parametrize(
    ("text", "mechanism"),
    [
        ("kind = 'none'\ncanary_norm = 2", NoPrivacy(canary_norm=2.0)),
        (
            "kind = 'tree_aggregation'\nnoise_multiplier = 1\nclip_norm = 0.5\nrestart_every = 7",
            TreeAggregation(noise_multiplier=1.0, clip_norm=0.5, restart_every=7),
        ),
        ("kind = 'distributed'\nnoise_multiplier = 1", Distributed(noise_multiplier=1.0, bits=20)),
        (
            "kind = 'client_gaussian'\nnoise_multiplier = 1\nclip_norm = 0.5",
            ClientGaussian(noise_multiplier=1.0, clip_norm=0.5),
        ),
        (
            "kind = 'gaussian_fixed'\nnoise_multiplier = 1\nclip_norm = 1\n"
            "[mechanism.zeroing]\nkind = 'fixed'\nnorm = 3",
            GaussianFixed(noise_multiplier=1.0, clip_norm=1.0, zeroing=FixedZeroing(norm=3.0)),
        ),
        (
            "kind = 'none'\ncanary_norm = 2\nzeroing = { kind = 'adaptive' }",
            NoPrivacy(
                canary_norm=2.0,
                # As `tff.learning.dp_aggregator` zeroes.
                zeroing=AdaptiveZeroing(
                    initial_estimate=10.0,
                    target_quantile=0.98,
                    learning_rate=math.log(10),
                    multiplier=2.0,
                    increment=1.0,
                ),
            ),
        ),
    ],
)
def test_kinds_and_their_round_trip(tmp_path, text, mechanism):
    config = read(tmp_path, text)
    assert config.mechanism == mechanism
    again = tmp_path / "again.toml"
    again.write_text(config_to_toml(config))
    assert load_config(again) == config


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind = 'none'", "key `mechanism.canary_norm` is missing"),
        ("kind = 'none'\ncanary_norm = 0", "key `mechanism.canary_norm`: must be a number above 0"),
        (
            "kind = 'tree_aggregation'\nclip_norm = 1",
            "key `mechanism`: noise_multiplier (or epsilon) is missing",
        ),
        ("kind = 'distributed'\nnoise_multiplier = 1\nbits = 23", "key `mechanism.bits`"),
        (
            "kind = 'matrix_factorisation'\nnoise_multiplier = 1\nclip_norm = 1\nstrategy = 'blt'",
            "key `mechanism`: strategy 'blt' needs buffers",
        ),
        (
            "kind = 'matrix_factorisation'\ntarget_quantile = 0.5",
            "key `mechanism.target_quantile`: belongs to an adaptive clip norm",
        ),
        (
            "kind = 'none'\ncanary_norm = 1\n[mechanism.zeroing]\nnorm = 1",
            "key `mechanism.zeroing.kind` is missing; one of fixed, adaptive",
        ),
        (
            "kind = 'none'\ncanary_norm = 1\n[mechanism.zeroing]\nkind = 'fixed'\nnrm = 1",
            "unknown key `mechanism.zeroing.nrm`; did you mean 'norm'?",
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, message):
    with pytest.raises(InputError) as error:
        read(tmp_path, text)
    assert message in str(error.value)


@pytest.mark.parametrize("multiplier", [1e-30, 9e-7, 1.1e6, 1e30])
def test_noise_that_cannot_be_computed_with_is_refused_with_its_number(multiplier):
    table = GaussianFixed(noise_multiplier=multiplier, clip_norm=1.0)
    with pytest.raises(InputError, match=r"must be 0, .* from 1e-06 to 1e.06, got"):
        round_noise(table, 5.0)


@pytest.mark.parametrize("multiplier", [0.0, 1e-6, 1e6])
def test_noise_at_the_ends_of_its_range_is_accounted(multiplier):
    noise = round_noise(GaussianFixed(noise_multiplier=multiplier, clip_norm=1.0), 5.0)
    assert noise.sum_noise_multiplier == multiplier
    (rdp, exact) = account_gaussian(multiplier, 5, 1e-5)
    assert rdp.epsilon is not None
    assert exact.epsilon is not None
    # Gaussian: shift^2 / 2 is the mean of the privacy loss where the noise is small.
    if multiplier == 1e-6:
        assert exact.epsilon == pytest.approx(5 / (2 * multiplier**2), rel=1e-4)
