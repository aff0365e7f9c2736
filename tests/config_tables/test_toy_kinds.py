"""A participation pattern and a task from outside the package: one registration each, no more."""

import math
from types import SimpleNamespace
from typing import ClassVar, Literal

import numpy as np
import pytest

from fl_audit.accounting import OneGroup, Release, account
from fl_audit.accounting.gaussian_accountants import account_gaussian
from fl_audit.config.file import config_to_toml, load_config, parse_config
from fl_audit.config_tables.kinds import PositiveInt, Table
from fl_audit.errors import InputError
from fl_audit.formats.run_record import RunRecord
from fl_audit.mechanisms import describe, round_noise
from fl_audit.participation import PATTERNS, Participation, ParticipationPattern, make_schedule
from fl_audit.participation.placement import spread
from fl_audit.participation.schedule import Attendance, Roster, Schedule
from fl_audit.report.words import run_facts
from fl_audit.tasks import load_task
from fl_audit.tasks.task_kinds import TASKS, Task, TaskKind


class OddAndEven(Table, Participation, frozen=True, tag_field="kind", tag="odd_and_even"):
    """Clients of even number in every other round, those of odd number in the others."""

    rounds: PositiveInt
    first: Literal["odd", "even"] = "even"


def schedule_of(config: OddAndEven, seed: int, roster: Roster) -> Schedule:
    clients = np.arange(roster.num_clients)
    offset = int(config.first == "odd")
    return Schedule(
        num_rounds=config.rounds,
        client_attendance=Attendance(
            lambda r: clients[(r + offset) % 2 :: 2],
            len(clients) / 2,
            OneGroup.over(config.rounds, 2),
        ),
        canary_attendance=spread(roster.pool, seed, config.rounds, 1).of_canaries(roster.included),
    )


def client_rounds(record: RunRecord, config: OddAndEven) -> str:
    rounds = record.release.client.participations
    return f"Odd and even take turns, {config.first} first, {rounds} each."


def canary_rounds(config: OddAndEven) -> str:
    return f"one, whether {config.first} or not"


class Letters(Table, Task, frozen=True, tag_field="kind", tag="letters"):
    """Letters that are in a file."""

    path_keys: ClassVar[tuple[str, ...]] = ("file",)

    file: str


def load_letters(config: Letters, seed: int) -> SimpleNamespace:
    ids = [f"client-{i}" for i in range(10)]
    return SimpleNamespace(name=f"{config.file} from {seed}", client_ids=ids)


@pytest.fixture(autouse=True)
def _registered():
    PATTERNS.register(
        ParticipationPattern(OddAndEven, schedule_of, client_rounds, canary_rounds, False)
    )
    TASKS.register(TaskKind(Letters, load_letters))
    yield
    PATTERNS.remove("odd_and_even")
    TASKS.remove("letters")


SEED, POOL, NOISE = 3, 20, 1.5
INCLUDED = np.arange(POOL) < 9
TOML = f"""
seed = {SEED}
[task]
kind = "letters"
file = "letters.csv"
[mechanism]
kind = "tree_aggregation"
noise_multiplier = {NOISE}
clip_norm = 1
[participation]
kind = "odd_and_even"
rounds = 9
first = "odd"
[canaries]
count = {POOL}
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "toy.toml"
    path.write_text(TOML)
    return load_config(path)


def test_tables_are_read_and_written(config, tmp_path):
    assert config.participation == OddAndEven(rounds=9, first="odd")
    assert config.task == Letters(file=str(tmp_path / "letters.csv"))
    again = tmp_path / "again.toml"
    again.write_text(config_to_toml(config))
    assert load_config(again) == config


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("participation.kind=odd_and_evn", "unknown 'odd_and_evn'; did you mean 'odd_and_even'?"),
        ("participation.first=old", "key `participation.first`: unknown 'old'; did you mean 'odd'"),
        (
            "participation.rounds=0",
            "key `participation.rounds`: must be a whole number of at least 1",
        ),
        ("task.fil=x", "unknown key `task.fil`; did you mean 'file'?"),
    ],
)
def test_mistakes_in_them_are_named(tmp_path, override, message):
    path = tmp_path / "toy.toml"
    path.write_text(TOML)
    with pytest.raises(InputError) as caught:
        load_config(path, [override])
    assert message in str(caught.value)


def scheduled(config) -> Schedule:
    task = load_task(config.task, config.seed)
    return make_schedule(
        config.participation, config.canaries, config.seed, task.client_ids, INCLUDED
    )


def test_the_task_is_loaded_and_the_rounds_are_the_patterns(config, tmp_path):
    assert load_task(config.task, config.seed).name == f"{tmp_path / 'letters.csv'} from {SEED}"
    schedule = scheduled(config)
    np.testing.assert_array_equal(schedule.clients(0), [1, 3, 5, 7, 9])
    np.testing.assert_array_equal(schedule.clients(1), [0, 2, 4, 6, 8])
    assert (schedule.client_participations, schedule.canary_participations) == (5, 1)
    assert sum(len(schedule.canaries(r)) for r in range(9)) == INCLUDED.sum()


def release_of(config) -> Release:
    schedule = scheduled(config)
    noise = round_noise(config.mechanism, schedule.expected_cohort)
    return describe(config.mechanism, noise, schedule, POOL)


def record_of(config) -> RunRecord:
    blank = dict.fromkeys(RunRecord.__dataclass_fields__)
    known = {
        "task": "letters",
        "dim": 1000,
        "num_clients": 10,
        "num_canaries": POOL,
        "num_included": int(INCLUDED.sum()),
        "delta": 1e-5,
        "release": release_of(config),
        "accuracy": 0.5,
    }
    return RunRecord(**blank | known)


def test_accounting_takes_the_rounds_that_the_pattern_states(config):
    accounting = account(release_of(config), 1e-5)
    # Rounds 0, 2, 4, 6, 8 of a tree of nine: in 5 leaves, in 4 nodes of two rounds once, in 2 of
    # four twice and in one of eight four times, 5 + 4 + 2 * 4 + 16 = 33.
    *_, exact = account_gaussian(NOISE / math.sqrt(33), 1, 1e-5)
    assert accounting.client.participations == 5
    assert accounting.client.by_accountant[-1].epsilon == pytest.approx(exact.epsilon, rel=1e-12)
    # A canary is in one round: in a leaf and in at most three nodes above it.
    *_, exact = account_gaussian(NOISE / 2, 1, 1e-5)
    assert accounting.canary.by_accountant[-1].epsilon == pytest.approx(exact.epsilon, rel=1e-12)


def test_the_report_says_it_in_the_patterns_words(config):
    rounds = [np.zeros(1, np.int64)] * int(INCLUDED.sum())
    run = SimpleNamespace(record=record_of(config), config=config, canary_rounds=rounds)
    facts = run_facts(run)
    assert facts["Participation"] == "Odd and even take turns, odd first, 5 each."
    assert "participated in 1 round. Its rounds are one, whether odd or not." in facts["Canaries"]


def test_what_is_not_registered_fails_loudly(config):
    run = SimpleNamespace(record=record_of(config), config=config)
    PATTERNS.remove("odd_and_even")
    TASKS.remove("letters")
    try:
        with pytest.raises(TypeError, match="no participation pattern is registered for OddAnd"):
            make_schedule(config.participation, config.canaries, SEED, ["client-0"], INCLUDED)
        with pytest.raises(TypeError, match="no participation pattern is registered for OddAnd"):
            run_facts(run)
        with pytest.raises(TypeError, match="no task is registered for Letters"):
            load_task(config.task, config.seed)
        with pytest.raises(InputError, match="unknown 'letters'; known: breast_cancer, cifar10"):
            parse_config({"task": {"kind": "letters", "file": "x"}}, "toy")
    finally:
        TASKS.register(TaskKind(Letters, load_letters))
        PATTERNS.register(
            ParticipationPattern(OddAndEven, schedule_of, client_rounds, canary_rounds, False)
        )
