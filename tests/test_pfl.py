"""The adapter for pfl-research: with the real package where it is installed (`make test-pfl`)."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from fl_audit.attacks import RoundScorer
from fl_audit.commands.estimate import read_profile
from fl_audit.errors import InputError
from fl_audit.formats.participation_files import read_participation
from fl_audit.pfl import CanaryUsers, write_claim
from fl_audit.report.checks import folder_canary_check, folder_checks
from fl_audit.report.folder import AuditedFolder, folder_statistics

ITERATIONS, COHORT, CLIP_NORM, SHAPES = 20, 10, 0.5, {"w": (200, 10), "b": (10,)}


@pytest.fixture
def pfl():
    """pfl's parts, on NumPy."""
    pytest.importorskip("pfl", reason="needs make test-pfl")
    from pfl.common_types import Population
    from pfl.context import CentralContext, UserContext
    from pfl.internal.ops import numpy_ops, selector
    from pfl.privacy import gaussian_mechanism, privacy_mechanism
    from pfl.stats import MappedVectorStatistics

    selector._internal_reset_framework_module()
    selector.set_framework_module(numpy_ops)
    yield SimpleNamespace(
        central=lambda number: CentralContext(
            number, False, COHORT, Population.TRAIN, None, None, seed=number
        ),
        user=lambda number: UserContext(num_datapoints=3, seed=number, user_id=str(number)),
        gaussian=gaussian_mechanism.GaussianMechanism,
        central_mechanism=privacy_mechanism.CentrallyAppliedPrivacyMechanism,
        stats=MappedVectorStatistics,
    )
    selector._internal_reset_framework_module()


def statistics(pfl, random, scale=1.0):
    parts = {n: (scale * random.normal(size=s)).astype(np.float32) for n, s in SHAPES.items()}
    return pfl.stats(parts, weight=1)


def simulate(pfl, audit, iterations=ITERATIONS, scale=1.0):
    """Rounds as pfl's backend makes them, with users whose statistics are random."""
    random = np.random.default_rng(5)
    model = SimpleNamespace(get_parameters=lambda: statistics(pfl, np.random.default_rng(6)))
    audit.on_train_begin(model=model)
    released = []
    for number in range(iterations):
        total = None
        for user in range(COHORT):
            stats = statistics(pfl, random, scale)
            sent, _ = audit.postprocess_one_user(stats=stats, user_context=pfl.user(user))
            total = sent if total is None else total + sent
        made, _ = audit.postprocess_server(
            stats=total, central_context=pfl.central(number), aggregate_metrics=None
        )
        released.append(made)
    audit.on_train_end(model=model)
    return released


def audited(pfl, folder, noise=1.0, **settings):
    mechanism = pfl.central_mechanism(pfl.gaussian(CLIP_NORM, noise))
    return CanaryUsers(
        mechanism, folder, num_iterations=ITERATIONS, seed=3, **{"count": 400, **settings}
    )


@pytest.mark.parametrize("rate", [0.1, None])
def test_a_simulation_is_audited(tmp_path, pfl, rate):
    simulate(pfl, audited(pfl, tmp_path / "audit", sample_rate=rate))
    folder = AuditedFolder(tmp_path / "audit")
    assert RoundScorer.open(folder.path).scored_rounds == list(range(1, ITERATIONS + 1))
    found = folder_statistics(folder)
    assert {"max", "sum", "own_rounds", "final_minus_initial"} <= {one.name for one in found}
    canary_check = folder_canary_check(folder, found)
    # About 200 presentations at least, each with a deviation of about 1.
    assert canary_check.state == "arrived"
    assert canary_check.ratio == pytest.approx(1, abs=0.4)
    assert folder_checks(folder).passed is True
    stated = read_participation(folder.path / "participation.json")
    assert (stated.probability, stated.claim_counts_on_sampling) == (rate, rate is not None)


def test_canaries_are_clipped_users_of_the_sum(tmp_path, pfl):
    audit = audited(pfl, tmp_path / "audit", noise=1e-9)
    released = simulate(pfl, audit, scale=1e-9)
    pool, participations = audit._scorer.pool, audit._rounds.participations
    for number, made in enumerate(released):
        canaries = [canary for canary in participations.members_in(number) if pool.included[canary]]
        expected = CLIP_NORM * sum((pool.vector(j) for j in canaries), np.zeros(pool.dim))
        found = np.concatenate([np.ravel(part) for part in made.get_weights()[1]])
        np.testing.assert_allclose(found, expected, atol=1e-5)
        assert made.weight == COHORT + len(canaries)


def test_half_of_the_noise_is_noticed(tmp_path, pfl):
    audit = audited(pfl, tmp_path / "audit")
    halved = pfl.gaussian(CLIP_NORM, 0.5)
    audit.mechanism.underlying_mechanism.add_noise = halved.add_noise
    simulate(pfl, audit)
    assert folder_checks(AuditedFolder(tmp_path / "audit")).passed is False


def test_faults_do_not_end_the_simulation(tmp_path, pfl, caplog):
    audit = audited(pfl, tmp_path / "audit")
    audit._score = None
    simulate(pfl, audit)
    faults = (tmp_path / "audit" / "faults.txt").read_text().splitlines()
    assert len(faults) == ITERATIONS
    assert "training goes on" in caplog.text


@pytest.mark.parametrize("choice", ["warn", "error"])
def test_an_iteration_whose_canaries_fail_is_left_out(tmp_path, pfl, choice):
    audit = audited(pfl, tmp_path / "audit", noise=0.1, lost_canaries=choice)
    audit._with_canaries = None
    simulate(pfl, audit)
    assert audit._scorer.scored_rounds == []
    assert len((tmp_path / "audit" / "faults.txt").read_text().splitlines()) == ITERATIONS


@pytest.mark.parametrize("choice", ["warn", "error"])
def test_lost_canaries_are_a_sentence_and_end_the_training_if_so_chosen(
    tmp_path, pfl, caplog, choice
):
    audit = audited(pfl, tmp_path / "audit", noise=0.1, lost_canaries=choice)
    audit._with_canaries = lambda stats, iteration, clip_norm: (stats, 0)
    sentence = "the canary check fails in round"
    if choice == "error":
        with pytest.raises(InputError, match=sentence):
            simulate(pfl, audit)
    else:
        simulate(pfl, audit)
        assert [line.message.startswith(sentence) for line in caplog.records] == [True]


def test_another_folder_is_refused_before_the_training(tmp_path, pfl):
    simulate(pfl, audited(pfl, tmp_path / "audit"), iterations=2)
    with pytest.raises(InputError, match="must be a new folder"):
        simulate(pfl, audited(pfl, tmp_path / "audit", count=399))


def test_the_claim_is_a_profile(tmp_path):
    @dataclasses.dataclass
    class Accountant:
        epsilon: float | None
        delta: float

        def __post_init__(self):
            if self.epsilon is None:
                self.epsilon = -np.log(self.delta)

    write_claim(Accountant(1.0, 0.1), tmp_path / "claim.csv")
    points = read_profile(tmp_path / "claim.csv")
    assert len(points) == 25
    assert all(epsilon == pytest.approx(-np.log(delta)) for epsilon, delta in points)


L2 = SimpleNamespace(_order=2, clipping_bound=1.0)


@pytest.mark.parametrize(
    ("mechanism", "settings", "message"),
    [
        (SimpleNamespace(_order=1, clipping_bound=1.0), {}, "canary_norm: is required"),
        (L2, {"canary_norm": 0.0}, "canary_norm: must be positive"),
        (L2, {"num_iterations": 0}, "number of rounds"),
        (L2, {"repeats": 9}, "repeats: must be in 1 to 8"),
        (L2, {"sample_rate": 2}, "probability"),
        (L2, {"count": 1}, "count"),
    ],
)
def test_what_cannot_be_audited_is_refused(tmp_path, mechanism, settings, message):
    with pytest.raises(InputError, match=message):
        CanaryUsers(mechanism, tmp_path / "audit", **{"num_iterations": 8, "seed": 1, **settings})
    assert not (tmp_path / "audit").exists()
