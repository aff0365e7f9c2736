"""The zoo of broken mechanisms: each member is wrong where it says, and the audit runs on them."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
import tensorflow_privacy as tfp

from experiments.broken_mechanisms import correct, queries, run, table, truth
from experiments.broken_mechanisms.attacks import (
    largest_difference,
    mean_correlation,
    sum_of_unshared,
)
from experiments.broken_mechanisms.audited_run import audited_run, compiled_runtime
from experiments.broken_mechanisms.right_variants import variants
from experiments.broken_mechanisms.zoo import ZOO
from fl_audit.canaries.families import RademacherFamily
from fl_audit.config.file import load_config
from fl_audit.engines.prepare import prepare
from fl_audit.estimators.gaussian.mechanism import epsilon_of_mu

CLIP = 0.5
SHAPES = ((40, 30), (30,), (30, 10), (10,))
MEMBERS = {member.name: member for member in ZOO}


def _record(value: float) -> list[tf.Tensor]:
    return [tf.fill(shape, value) for shape in SHAPES]


def _clipped(query: tfp.SumAggregationDPQuery, value: float = 1.0) -> list[float]:
    """Norms of the variables of a record of equal numbers, as it enters the sum."""
    params = query.derive_sample_params(query.initial_global_state())
    return [float(tf.norm(part)) for part in query.preprocess_record(params, _record(value))]


def _noise(query: tfp.SumAggregationDPQuery) -> list[np.ndarray]:
    """What an empty sum is released as, twice."""
    state = query.initial_global_state()
    return [
        np.concatenate([np.ravel(part) for part in query.get_noised_result(_record(0.0), state)[0]])
        for _ in range(2)
    ]


def test_clip_after_noise_leaves_nothing_of_the_noise_on_a_long_update():
    query = queries.ClippedAfterNoise(CLIP, stddev=3.0, cohort=9.0)
    lengths = _clipped(query, value=1e12)
    assert np.linalg.norm(lengths) == pytest.approx(CLIP)
    equal = _clipped(tfp.GaussianSumQuery(CLIP, 0.0), value=1e12)
    np.testing.assert_allclose(lengths, equal, rtol=1e-5)
    assert not np.any(_noise(query))


@pytest.mark.parametrize(("share", "times"), [(1.0, 2.0), (0.0, 1.0)])
def test_counted_twice(share, times):
    lengths = _clipped(queries.CountedTwice(CLIP, 0.0, share))
    assert np.linalg.norm(lengths) == pytest.approx(times * CLIP)


def test_reused_noise_is_the_same_and_has_the_right_size():
    first, second = _noise(queries.OtherNoise(CLIP, 3.0, queries.reused(seed=1)))
    np.testing.assert_array_equal(first, second)
    # 1,540 numbers: 5.5 standard errors of a standard deviation; the seed is fixed anyway.
    assert np.std(first) == pytest.approx(3.0, rel=5.5 / np.sqrt(2 * first.size))


@pytest.mark.parametrize("member", ZOO, ids=lambda member: member.name)
def test_each_member_is_an_aggregator_of_tff(member):
    config = load_config(run.FOLDER / f"{member.configs[0]}.toml", list(member.overrides))
    aggregator = member.make_aggregator(config.mechanism, 520.0, 3)
    kind = tff.to_type([tff.TensorType(np.float32, shape) for shape in SHAPES])
    assert aggregator.create(kind).next.type_signature.result.result.member == kind


def test_attacks_cancel_the_noise_that_they_are_for():
    family = RademacherFamily(seed=1, num_canaries=2, dim=4000)
    random = np.random.default_rng(1)
    noise = random.normal(size=4000).astype(np.float32)
    canary = 0.01 * family.vector(0)
    aggregates = [noise, noise + canary, noise]
    assert largest_difference(family, aggregates)[0] == pytest.approx(1.0, abs=1e-3)
    assert mean_correlation(aggregates) == pytest.approx(1.0, abs=1e-3)
    shared = np.tile(random.normal(size=1000).astype(np.float32), 4)
    scores = sum_of_unshared(family, [shared + canary], num_pieces=4)
    assert scores[0] > 0.8
    assert abs(scores[1]) < 6 / np.sqrt(4000)


def _row(mechanism: str, **fields: object) -> dict[str, object]:
    once = {"config": "once", "rounds": 30, "noise_multiplier": 1.43, "cohort": 27.0, "delta": 1e-3}
    return {"mechanism": mechanism, "claim": 2.0, **once, **fields}


def test_true_epsilons():
    claimed = epsilon_of_mu(1 / 1.43, 1e-3)
    doubled = truth.true_epsilon(_row("half the noise multiplier"))
    assert doubled == pytest.approx(epsilon_of_mu(2 / 1.43, 1e-3))
    assert truth.true_epsilon(_row("correct: fixed clip")) == 2.0
    assert truth.true_epsilon(_row("same seed: workers sum clients")) < claimed
    assert truth.true_epsilon(_row("clip after noise")) == np.inf
    assert claimed < truth.true_epsilon(_row("one upload in ten counted twice")) < doubled


SMALL = ("canaries.count=120", "participation.rounds=3", "task.hidden=[16]", "seed=4")


def _audit(name: str, folder) -> dict[str, object]:
    member = MEMBERS[name]
    config = load_config(run.FOLDER / "every_round.toml", [*SMALL, *member.overrides])
    prepared = member.in_place_of(prepare(config))
    runtime = compiled_runtime(prepared, member.make_aggregator)
    return run.results_of(audited_run(prepared, runtime, folder / "run"), prepared)


@pytest.mark.tff
@pytest.mark.slow
def test_a_small_audit_finds_a_large_bug(tmp_path):
    found = _audit("noise over the denominator twice", tmp_path)
    assert found["contradicted"]
    row = {"mechanism": "noise over the denominator twice", "config": "every_round", **found}
    assert found["together"] < truth.true_epsilon(row)
    assert "**yes**" in table.verdicts([{**row, "canaries": "rademacher"}])
    head, _, line = table.checks([{**row, "canaries": "rademacher"}]).splitlines()
    checks = {"enough_noise", "fresh_noise", "bounded_length", "no_echo", "once_a_round"}
    assert checks <= {cell.strip() for cell in head.split("|")}
    assert "| **0.0" in line


def _failed(found: dict[str, object]) -> set[str]:
    return {check["name"] for check in found["checks"] if not check["passed"]}


@pytest.mark.tff
@pytest.mark.parametrize(
    ("name", "check"),
    [
        pytest.param("correct: adaptive clip", None, marks=pytest.mark.slow),
        ("noise reused in every round", "fresh_noise"),
        pytest.param("half the noise multiplier", "enough_noise", marks=pytest.mark.slow),
        pytest.param(
            "one variable unclipped: the last bias", "bounded_length", marks=pytest.mark.slow
        ),
        pytest.param("same seed: workers hold pieces", "no_echo", marks=pytest.mark.slow),
    ],
)
def test_checks_find_what_they_are_made_for(name, check, tmp_path):
    found = _audit(name, tmp_path)
    assert _failed(found) == set() if check is None else check in _failed(found)


@pytest.mark.slow
@pytest.mark.tff
def test_nothing_is_said_of_correct_mechanisms_that_may_not_be_said():
    """A claim may fall in 5 % of runs by its confidence; in hundreds of runs none did.

    Of the variants, the first of each pattern and of each mechanism.
    """
    seen: set[str] = set()
    for variant in variants():
        kinds = {variant.pattern, variant.mechanism.partition(",")[0]}
        if kinds <= seen:
            continue
        seen |= kinds
        (row,) = correct.audits(variant, seeds=[1002])
        assert row["claimed"] == "epsilon"
        assert row["outcome"] != "contradicted"
        assert row["stopped_after"] is None
        assert row["arrival"] != "not_arrived"
        assert all(check["passed"] for check in row["checks"])
        assert (row["live_p"] is not None) == variant.is_tested_live
