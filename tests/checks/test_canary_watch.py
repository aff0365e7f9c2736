"""Lost canaries are reported while a system trains, after the first rounds that can tell."""

import logging

import pytest

from fl_audit.attacks import RoundScorer
from fl_audit.checks.canary_check import CANARY_CHECK_FALSE_ALARM
from fl_audit.checks.canary_watch import CanariesLostError, CanaryWatch, looks
from fl_audit.errors import InputError
from tests.report.wrong_setups import ROUNDS, System
from tests.seeds_tried import some


class Lossy(System):
    """A system that loses a share of its canaries, each for itself."""

    share = 0.0

    def update(self, canary, clip_norm, index):
        return super().update(canary, clip_norm, index) * (self.rng.random() >= self.share)


def rounds_until_stopped(folder, system, lost_canaries="error"):
    """The number of rounds that a system trains, and the sentence that ended it."""
    rounds = [[int(index) + 1] for index in system.listed_rounds]
    scorer = RoundScorer.create(folder, system.pool, ROUNDS, rounds, lost_canaries=lost_canaries)
    for index in range(ROUNDS):
        aggregate = system.aggregate(index)
        try:
            scorer.score_round(index + 1, aggregate, canary_length=system.promised(index))
        except CanariesLostError as error:
            assert scorer.scored_rounds == list(range(1, index + 2))  # the round is there
            return index + 1, str(error)
    return ROUNDS, ""


@pytest.mark.parametrize(("share", "latest"), [(1.0, 4), (0.5, 16)])
def test_lost_canaries_end_a_training_in_its_first_rounds(tmp_path, share, latest):
    for seed in some(range(3), 1):
        system = Lossy(seed)
        system.share = share
        rounds, sentence = rounds_until_stopped(tmp_path / str(seed), system)
        assert rounds <= latest
        assert f"round{f's 1 to {rounds}' if rounds > 1 else ' 1'}: canaries have" in sentence
        assert "× the expected norm" in sentence
        assert "dropped" in sentence
        assert "lost_canaries = 'warn'" in sentence


def test_a_correct_system_is_never_stopped(tmp_path):
    # The probability is below 1e-6 for each seed.
    for seed in some(range(5), 1):
        assert rounds_until_stopped(tmp_path / str(seed), System(seed)) == (ROUNDS, "")


@pytest.mark.slow
def test_all_looks_together_keep_the_false_alarm(tmp_path, monkeypatch):
    """At a total probability of 0.3, no more than that of 20 correct systems are stopped.

    The count is above 16 with a probability of 5e-7 if each is stopped with 0.3.
    """
    monkeypatch.setattr("fl_audit.checks.canary_watch.CANARY_CHECK_FALSE_ALARM", 0.3)
    stopped = sum(
        rounds_until_stopped(tmp_path / str(seed), System(seed))[0] < ROUNDS for seed in range(20)
    )
    assert stopped <= 16


def test_each_look_has_an_equal_share_of_the_false_alarm():
    assert looks(1) == [1]
    assert looks(2047) == [2**power for power in range(11)]
    assert looks(2048) == [2**power for power in range(12)]
    levels = []
    watch = CanaryWatch(48, choice="error", warn=print, key="lost_canaries")
    for number in range(1, 49):
        watch.see(number, number, levels.append)
    assert len(levels) == len(looks(48)) == 6
    assert sum(levels) == pytest.approx(CANARY_CHECK_FALSE_ALARM)


def test_a_warning_comes_once_and_training_goes_on(tmp_path, caplog):
    system = Lossy(1)
    system.share = 1.0
    with caplog.at_level(logging.WARNING, "fl_audit"):
        assert rounds_until_stopped(tmp_path / "log", system, "warn") == (ROUNDS, "")
    [record] = caplog.records
    assert record.message.startswith("the canary check fails in round")


def test_canaries_that_are_too_long_are_a_warning_whatever_the_choice(tmp_path, caplog):
    class Doubled(System):
        def update(self, canary, clip_norm, index):
            return 2 * super().update(canary, clip_norm, index)

    assert rounds_until_stopped(tmp_path / "log", Doubled(1)) == (ROUNDS, "")
    [record] = caplog.records
    assert "they are longer than a client's update may be" in record.message
    assert record.message.endswith("fix the fault and start anew, or train on")


def test_another_word_is_refused(tmp_path):
    system = System()
    with pytest.raises(InputError, match="lost_canaries: must be 'error' or 'warn', got 'stop'"):
        RoundScorer.create(tmp_path / "log", system.pool, ROUNDS, lost_canaries="stop")
