"""One module and one registration add a mechanism, and none can be added in part."""

import subprocess
import sys

import numpy as np
import pytest

from fl_audit.accounting import Denominator, Noise, NoiseDistribution, account
from fl_audit.accounting.gaussian_accountants import account_gaussian
from fl_audit.accounting.noise_distributions import (
    GAUSSIAN,
    register_noise_distribution,
    remove_noise_distribution,
)
from fl_audit.accounting.skellam import SKELLAM
from fl_audit.config import Canaries, EveryRound
from fl_audit.config.design import design_run
from fl_audit.config.file import config_to_toml, load_config
from fl_audit.config_tables import Table
from fl_audit.errors import InputError
from fl_audit.mechanisms import (
    MECHANISMS,
    Mechanism,
    MechanismKind,
    canary_norm,
    clip_and_noise,
    describe,
    make_aggregator,
    round_noise,
)
from fl_audit.participation import make_schedule
from tests.mechanisms.doubled_noise import PARTS, DoubledNoise, doubled_noise
from tests.planning.planned_runs import small_config

CONFIG = """
[task]
kind = "digits"

[participation]
kind = "every_round"
rounds = 3

[canaries]
count = 4

[mechanism]
kind = "doubled_noise"
noise_multiplier = 0.7
"""


@pytest.fixture
def registered():
    with doubled_noise():
        yield


def test_is_read_and_written(tmp_path, registered):
    path, again = tmp_path / "config.toml", tmp_path / "again.toml"
    path.write_text(CONFIG)
    config = load_config(path)
    assert config.mechanism == DoubledNoise(noise_multiplier=0.7, clip_norm=0.5)
    again.write_text(config_to_toml(config))
    assert load_config(again) == config
    path.write_text(CONFIG + "clip_nrm = 1.0\n")
    with pytest.raises(InputError, match=r"`mechanism\.clip_nrm`; did you mean 'clip_norm'"):
        load_config(path)


def test_its_noise_is_accounted(registered):
    table, participation = DoubledNoise(noise_multiplier=0.7), EveryRound(rounds=3)
    schedule = make_schedule(
        participation, Canaries(count=4), 1, ["a", "b"], np.array([True, False, True, False])
    )
    release = describe(table, round_noise(table, schedule.expected_cohort), schedule, 4)
    assert (release.noise, release.zeroing) == (Noise("gaussian", 1.4, 1.4), "none")
    assert release.denominator == Denominator("actual_cohort", schedule.expected_cohort)
    assert account(release, 1e-5).client.by_accountant == account_gaussian(1.4, 3, 1e-5)


@pytest.mark.parametrize(("is_by_participants", "fewest"), [(True, 4), (False, None)])
def test_a_law_from_outside_says_whether_participants_add_the_noise(is_by_participants, fewest):
    words = ("The sum alone is released.",), "Noise is a toy."
    distribution = register_noise_distribution(
        NoiseDistribution("by_each", None, False, *words, is_by_participants=is_by_participants)
    )
    MECHANISMS.register(MechanismKind(**{**PARTS, "noise_distribution": distribution}))
    roster = ["a", "b"], np.array([True, False, True, False])
    schedule = make_schedule(EveryRound(rounds=3), Canaries(count=4), 1, *roster)
    try:
        release = describe(
            DoubledNoise(noise_multiplier=0.7), distribution.noise(1.0, 1.0), schedule, 4
        )
    finally:
        MECHANISMS.remove("doubled_noise")
        remove_noise_distribution("by_each")
    assert release.fewest == fewest


def test_noise_of_another_law_than_it_says_is_refused():
    other = {**PARTS, "round_noise": lambda table, cohort: SKELLAM.noise(1.0, 1.0)}
    MECHANISMS.register(MechanismKind(**other))
    try:
        with pytest.raises(ValueError, match="of distribution 'gaussian', got 'skellam'"):
            round_noise(DoubledNoise(noise_multiplier=0.7), 4.0)
    finally:
        MECHANISMS.remove("doubled_noise")


class BySigma(Table, Mechanism, frozen=True, tag_field="kind", tag="by_sigma"):
    """A mechanism whose noise has another name than those of fl-audit."""

    sigma: float
    clip_norm: float = 0.5


def test_noise_of_any_name_has_a_range_and_a_schedule_drawn_in_secret():
    noise_of = {"round_noise": lambda table, cohort: GAUSSIAN.noise(table.sigma, table.sigma)}
    MECHANISMS.register(MechanismKind(**{**PARTS, **noise_of, "table": BySigma}))
    try:
        with pytest.raises(
            InputError, match=r"^round_noise: the noise multiplier must be 0, .*1e\+30"
        ):
            round_noise(BySigma(sigma=1e30), 4.0)
        for sigma, secret in ((0.0, None), (1.0, 1 << 200)):
            mechanism = {"kind": "by_sigma", "sigma": sigma}
            pattern = {"kind": "bernoulli", "rounds": 12, "clients_per_round": 6}
            config = small_config({"mechanism": mechanism, "participation": pattern})
            assert design_run(config, list("abcdefgh"), 40, 1 << 200).secret == secret
    finally:
        MECHANISMS.remove("by_sigma")


@pytest.mark.tff
def test_its_aggregator_is_made_and_read(registered):
    import tensorflow_federated as tff

    table = DoubledNoise(noise_multiplier=0.7)
    process = make_aggregator(table, 4.0, 3).create(tff.TensorType(np.float32, [3]))
    state = process.initialize()
    found = clip_and_noise(table, state)
    assert (found.clip_norm, found.stddev) == pytest.approx((0.5, 0.7))
    assert canary_norm(table, state) > 1e10


WITH_DEFAULT = {"clip_and_noise", "clip_words", "why_not_checked", "why_not_replayed"}


@pytest.mark.parametrize("part", sorted(PARTS.keys() - WITH_DEFAULT))
def test_none_can_be_made_without_what_accounting_needs(part):
    with pytest.raises(TypeError, match=f"'{part}'"):
        MechanismKind(**{name: value for name, value in PARTS.items() if name != part})


def test_its_law_must_be_known_to_accounting():
    unknown = NoiseDistribution("toy", lambda run, party, delta: None, False, (), "Noise is a toy.")
    with pytest.raises(ValueError, match=r"noise_distribution must be one of .*, got 'toy'"):
        MechanismKind(**{**PARTS, "noise_distribution": unknown})
    other = NoiseDistribution(
        GAUSSIAN.name, lambda run, party, delta: None, False, (), "Noise is a toy."
    )
    with pytest.raises(ValueError, match="another noise distribution is registered as 'gaussian'"):
        MechanismKind(**{**PARTS, "noise_distribution": other})


def test_all_mechanisms_are_known_without_tensorflow():
    assert list(MECHANISMS) == [
        "gaussian_adaptive",
        "gaussian_fixed",
        "tree_aggregation",
        "matrix_factorisation",
        "distributed",
        "client_gaussian",
        "none",
    ]
    heavy = "{'tensorflow', 'tensorflow_federated', 'tensorflow_privacy', 'dp_accounting'}"
    code = f"import sys, fl_audit.mechanisms; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
