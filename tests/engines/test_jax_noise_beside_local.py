"""With noise, runs under `jax` and `local` have one distribution: of aggregates and of the audit.

For each mechanism 20 runs under either, of one config and one cohort: they differ in their noise
alone, which every run draws anew. Numbers of a run (the aggregates' inner products within and
across rounds, clip norms, losses, canaries' scores, lower bounds) are compared by the exact
two-sample test of Mann and Whitney, at 1e-9 each and 1e-6 over all that are compared here.
"""

import numpy as np
import pytest
from scipy import stats

from fl_audit.config import (
    Canaries,
    ClientGaussian,
    Distributed,
    GaussianAdaptive,
    MatrixFactorisation,
    TreeAggregation,
)
from fl_audit.engines.jax.jax_engine import JaxEngine
from fl_audit.engines.prepare import canaries_csv
from fl_audit.engines.runtimes import make_runtime
from fl_audit.estimators import CanaryScores, estimate
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.score_file import read_score_file
from fl_audit.run.folder_and_checkpoints import write_identity
from fl_audit.run.train import train as train_in_folder
from tests.engines.jax.conftest import small_run, train, with_keys

pytest.importorskip("tensorflow_federated")
pytestmark = [pytest.mark.tff, pytest.mark.slow]

RUNS, LEVEL, MOST_COMPARED = 20, 1e-9, 300
COSINES = ("final_minus_initial", "own_rounds")
STATISTICS = (*COSINES, "max", "sum")
BOUND = "threshold_valid"

MECHANISMS = {
    "adaptive": GaussianAdaptive(noise_multiplier=0.3, clip_norm=0.3),
    "matrix": MatrixFactorisation(
        noise_multiplier=0.3, clip_norm=0.3, strategy="banded_sqrt", bands=3
    ),
    "tree": TreeAggregation(noise_multiplier=0.3, clip_norm=0.3, restart_every=3),
    "at clients": ClientGaussian(noise_multiplier=0.1, clip_norm=0.3),
    "distributed": Distributed(noise_multiplier=0.3, clip_norm=0.3),
    "distributed, adaptive": Distributed(noise_multiplier=0.3),
}


def run_of(mechanism):
    return small_run(mechanism=mechanism, canaries=Canaries(count=60, family="gaussian"))


def of_rounds(seen, losses):
    """What a run's rounds are compared by: a number for each name."""
    aggregates = np.array([s.aggregate for s in seen], np.float64)
    products = aggregates @ aggregates.T
    pairs = np.argwhere(np.tri(len(seen), dtype=bool))
    numbers = {f"rounds {s} and {t}": products[s, t] for s, t in pairs}
    numbers["all rounds"] = np.trace(products)
    numbers |= {f"clip norm {t}": np.float32(s.clip_norm) for t, s in enumerate(seen)}
    # The first is that of a model without noise, and differs by its rounding alone.
    return numbers | {f"loss {t}": loss for t, loss in enumerate(losses) if t}


def of_audit(folder, dim):
    """What a run's audit is compared by: moments of canaries' scores, and lower bounds."""
    numbers = {}
    for statistic in STATISTICS:
        scores = read_score_file(folder.scores(statistic))
        included, excluded = scores.score[scores.included], scores.score[~scores.included]
        for name, part in (("included", included), ("excluded", excluded)):
            numbers[f"{statistic}, {name}, mean"] = part.mean()
            numbers[f"{statistic}, {name}, deviation"] = part.std()
        if statistic in COSINES:
            audit = estimate(CanaryScores(included, excluded), delta=1e-3, dim=dim, methods=[BOUND])
            (numbers[f"{statistic}, lower bound"],) = (e.epsilon for e in audit.estimates)
    return numbers


def audited_numbers(run, engine, parent):
    """The numbers of runs from config to scores."""
    rounds = []
    run_round = engine.run_round

    def recorded(state, data, index):
        rounds.append(run_round(state, data, index))
        return rounds[-1]

    object.__setattr__(engine, "run_round", recorded)
    for number in range(RUNS):
        folder = RunFolder(parent / str(number))
        folder.path.mkdir(parents=True)
        write_identity(folder, run.config, canaries_csv(run))
        rounds.clear()
        train_in_folder(run, engine, folder)
        losses = [trained.train_loss for trained in rounds]
        dim = run.task.classifier.dim
        yield of_rounds([trained.seen for trained in rounds], losses) | of_audit(folder, dim)


def numbers_of_rounds(run, engine):
    """The numbers of runs that are not audited."""
    for _ in range(RUNS):
        rounds, _ = train(run, engine)
        yield of_rounds([t.seen for t in rounds], [t.train_loss for t in rounds])


def p_values(ours, theirs):
    """The p-value of each number; equal values are ordered by chance, so that it is exact."""
    random = np.random.default_rng(1)
    result = {}
    for name in ours[0].keys() & theirs[0].keys():
        samples = np.array([[numbers[name] for numbers in side] for side in (ours, theirs)])
        order = np.lexsort((random.random(samples.size), samples.ravel()))
        ranks = np.argsort(order).reshape(samples.shape)
        result[name] = stats.mannwhitneyu(*ranks, method="exact").pvalue
    return result


@pytest.mark.parametrize("name", MECHANISMS)
def test_runs_and_their_audits_have_the_distribution_of_local(name, tmp_path):
    run = run_of(MECHANISMS[name])
    local = make_runtime(with_keys(run, runtime="local"), tmp_path / "worker.log")
    theirs = list(audited_numbers(run, local, tmp_path / "local"))
    ours = list(audited_numbers(run, JaxEngine(run), tmp_path / "jax"))
    compared = p_values(ours, theirs)
    assert len(compared) * len(MECHANISMS) <= MOST_COMPARED
    assert min(compared.values()) > LEVEL, min(compared, key=compared.get)


@pytest.mark.parametrize(
    ("name", "wrong", "seen_in"),
    [
        # A tenth more noise, and a tree's nodes in place of a matrix's rows.
        ("adaptive", GaussianAdaptive(noise_multiplier=0.33, clip_norm=0.3), "all rounds"),
        ("matrix", MECHANISMS["tree"], "rounds 1 and 0"),
        ("distributed", Distributed(noise_multiplier=0.33, clip_norm=0.3), "all rounds"),
    ],
)
def test_another_mechanism_is_seen(name, wrong, seen_in):
    right, other = (
        list(numbers_of_rounds(run, JaxEngine(run)))
        for run in map(run_of, (MECHANISMS[name], wrong))
    )
    assert p_values(right, other)[seen_in] < LEVEL
