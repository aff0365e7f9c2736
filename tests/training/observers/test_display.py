"""What a run says on standard error where that is no terminal."""

from types import SimpleNamespace

from fl_audit.estimators.anytime import LARGEST_TESTED
from fl_audit.run.observers import FinishedRound, ProgressDisplay, RoundMetrics, VerdictLine


def finished(number, accuracy=None, epsilon=None, contradicted_at=0.0):
    metrics = RoundMetrics(number, 9, 1, 1.0, 0.5, 0.1, 2.34567, accuracy, 0.4, 0.01, epsilon)
    return FinishedRound(metrics, contradicted_at=contradicted_at)


def started(rounds, completed=0, claim=None):
    config = SimpleNamespace(audit=SimpleNamespace(claimed_epsilon=claim))
    return SimpleNamespace(
        name="first", num_rounds=rounds, completed_rounds=completed, config=config
    )


def show(observer, run, rounds):
    observer.run_started(run)
    for one in rounds:
        observer.round_finished(one)
    observer.run_ended(finished=True)


def test_a_line_for_each_tenth_of_a_run(capsys):
    rounds = [finished(n, 0.5 if n == 10 else None, 1.234) for n in range(1, 101)]
    show(ProgressDisplay(), started(100), rounds)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 10
    assert lines[0] == "first: 10 of 100 rounds, loss 2.346, accuracy 0.500, epsilon at least 1.23"
    assert lines[-1].startswith("first: 100 of 100 rounds, ")


def test_the_largest_epsilon_that_is_tested_is_said_to_be_that(capsys):
    show(ProgressDisplay(), started(10), [finished(n, None, LARGEST_TESTED) for n in range(1, 11)])
    assert "epsilon at least 296, the largest tested\n" in capsys.readouterr().err


def test_a_resumed_run_counts_on(capsys):
    show(ProgressDisplay(), started(30, completed=17), [finished(n) for n in range(18, 31)])
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in lines] == ["18", "21", "24", "27", "30"]


def test_a_short_run_has_a_line_per_round(capsys):
    show(ProgressDisplay(), started(3), [finished(n) for n in range(1, 4)])
    assert len(capsys.readouterr().err.splitlines()) == 3


def test_a_run_that_its_claim_ends_says_so(capsys):
    rounds = [finished(1), finished(2, contradicted_at=2.5)]
    show(VerdictLine(), started(9, claim=2.0), rounds)
    assert capsys.readouterr().err == (
        "round 2: the claim of epsilon 2 is contradicted, at least 2.5 is proven; the run stops\n"
    )
