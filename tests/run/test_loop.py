"""Signals that stop a run, and what it logs of its aggregates."""

import concurrent.futures
import dataclasses
import os
import signal

import numpy as np
import pytest

from fl_audit.attacks.attacker import SeenRound
from fl_audit.checks import measure
from fl_audit.config import Audit
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.run.loop import AggregateWatch, LiveAudit, stop_request


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_remembered_and_then_no_longer_caught(number):
    before = signal.getsignal(number)
    with stop_request() as request:
        assert request.signal_number is None
        os.kill(os.getpid(), number)
        assert request.signal_number == number
        assert signal.getsignal(number) is signal.SIG_DFL
    assert signal.getsignal(number) is before


@pytest.mark.parametrize(("p_value", "told"), [(0.0213, 0.025), (0.0113, 0.02), (0.0251, 0.03)])
def test_the_p_value_of_secret_rounds_is_rounded_up_but_not_above_the_level(
    monkeypatch, p_value, told
):
    """Half of the level 0.05 stops a run, with rounds that the digits do not reveal."""
    audit = Audit(delta=1e-5, claimed_epsilon=2.0, confidence=0.95, stop_when_contradicted=True)
    monkeypatch.setattr(LiveAudit, "epsilon", 2.1)
    monkeypatch.setattr(LiveAudit, "_claim_p_value", p_value)
    monkeypatch.setattr(LiveAudit, "_claim_epsilon", 2.02)
    assert LiveAudit(audit, are_rounds_secret=True).record.claim_p_value == pytest.approx(told)
    assert LiveAudit(audit).record.claim_p_value == p_value


CLIP_NORM, PARTICIPANTS = 0.5, 4


@pytest.fixture
def noisy_run(dense_run):
    noise = dataclasses.replace(
        dense_run.noise, noise_multiplier=2.0, sum_noise_multiplier=2.0, count_noise_stddev=0.0
    )
    return dataclasses.replace(dense_run, noise=noise)


def aggregates(run, rounds=2):
    shape = (rounds, run.task.classifier.dim)
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


def show(watch, vectors, first=0):
    for index, vector in enumerate(vectors, start=first):
        model = np.zeros_like(vector)
        watch.see_round(SeenRound(index, model, vector, model, CLIP_NORM), PARTICIPANTS)
    watch.flush()


def test_logs_every_variable(noisy_run, tmp_path):
    folder, vectors = RunFolder(tmp_path), aggregates(noisy_run)
    show(AggregateWatch(noisy_run, folder, 0), vectors)
    rows = np.load(folder.aggregates)
    sizes = noisy_run.task.classifier.variable_sizes
    assert rows.shape == (noisy_run.schedule.num_rounds, len(sizes), 2)
    np.testing.assert_array_equal(rows[0], measure(vectors[0], None, sizes))
    np.testing.assert_array_equal(rows[1], measure(vectors[1], vectors[0], sizes))
    assert np.isnan(rows[2:]).all()


def test_goes_on_after_an_interruption_without_a_comparison(noisy_run, tmp_path):
    folder, vectors = RunFolder(tmp_path), aggregates(noisy_run, 3)
    show(AggregateWatch(noisy_run, folder, 0), vectors[:1])
    written = np.load(folder.round_noise)[0]
    show(AggregateWatch(noisy_run, folder, 1), vectors[1:], first=1)
    noise = np.load(folder.round_noise)
    np.testing.assert_array_equal(noise[0], written)
    assert np.isfinite(noise[:3]).all() and np.isnan(noise[3:]).all()
    compared = ~np.isnan(np.load(folder.aggregates)[:3, :, 1]).any(axis=1)
    assert compared.tolist() == [False, False, True]


def test_without_noise_there_is_none_to_measure(dense_run, tmp_path):
    noise = dataclasses.replace(dense_run.noise, sum_noise_multiplier=0.0)
    folder, run = RunFolder(tmp_path), dataclasses.replace(dense_run, noise=noise)
    show(AggregateWatch(run, folder, 0), aggregates(run))
    assert np.isnan(np.load(folder.round_noise)).all()


def test_a_log_that_should_be_there_is_asked_for(noisy_run, tmp_path):
    with pytest.raises(InputError, match=r"aggregates\.npy: is not a log of aggregates"):
        AggregateWatch(noisy_run, RunFolder(tmp_path), 1)


def test_outside_the_main_thread_no_signal_is_caught():
    def enter():
        with stop_request() as request:
            return request.signal_number

    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        assert thread.submit(enter).result() is None
