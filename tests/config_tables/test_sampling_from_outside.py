"""A way to draw rounds from outside the package: one subclass in its own module, no more.

Clients are drawn for the whole run, once, by a coin each: whoever is drawn is in every round.
"""

import dataclasses
import functools
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from fl_audit.accounting import (
    ADD_OR_REMOVE,
    Guarantee,
    Party,
    Release,
    SecretSampling,
    UnknownRounds,
    account,
    attacker_bounds,
)
from fl_audit.accounting.gaussian_accountants import (
    SampledRounds,
    account_gaussian,
    account_sampled,
)
from fl_audit.accounting.guarantee import AccountedEpsilon
from fl_audit.config import Canaries, GaussianFixed
from fl_audit.config.file import config_to_toml, parse_config
from fl_audit.config_tables.kinds import PositiveInt, Table
from fl_audit.formats.run_record import read_record, record_text
from fl_audit.mechanisms import describe, round_noise
from fl_audit.participation import PATTERNS, Participation, ParticipationPattern, make_schedule
from fl_audit.participation.schedule import Attendance, CanaryAttendance, Schedule, included_among
from fl_audit.report import write_report
from fl_audit.verdict.scope import why_unfit
from tests.report.conftest import CONFIG, NUM_CANARIES, ROUNDS, fill


@dataclass(frozen=True)
class DrawnOnce(SecretSampling):
    """All rounds or none, by one coin."""

    neighbours: ClassVar[str] = ADD_OR_REMOVE

    chance: float
    rounds: int

    @property
    def most(self) -> int:
        return self.rounds

    @property
    def assumption(self) -> str:
        return f"Nobody sees the coins of probability {self.chance:g}."

    def guarantee(self, release: Release, party: Party, delta: float) -> Guarantee:
        epsilon = epsilon_of(self, release.noise.noise_multiplier, delta)
        return Guarantee(self.rounds, (AccountedEpsilon("coin", epsilon),))


@functools.cache
def epsilon_of(drawn: DrawnOnce, noise: float, delta: float) -> float:
    """One Poisson-sampled Gaussian mechanism of all rounds."""
    sampled = SampledRounds(drawn.chance, noise / math.sqrt(drawn.rounds), 1)
    both = *account_sampled(sampled, delta), *account_gaussian(noise, drawn.rounds, delta)
    return min(accounted.epsilon for accounted in both if accounted.epsilon is not None)


class Coin(Table, Participation, frozen=True, tag_field="kind", tag="coin"):
    """A coin for each client."""

    rounds: PositiveInt
    percent: PositiveInt = 25


def schedule_of(config, seed, roster) -> Schedule:
    random, chance = np.random.default_rng(seed), config.percent / 100
    clients = np.flatnonzero(random.random(roster.num_clients) < chance)
    sampled = np.flatnonzero(random.random(len(roster.included)) < chance)
    sampling = DrawnOnce(chance, config.rounds)
    attending = included_among(lambda _: sampled, roster.included)
    return Schedule(
        num_rounds=config.rounds,
        client_attendance=Attendance(lambda _: clients, chance * roster.num_clients, sampling),
        canary_attendance=CanaryAttendance(
            attending, chance * int(roster.included.sum()), sampling, sampled=lambda _: sampled
        ),
    )


PATTERN = ParticipationPattern(
    Coin, schedule_of, lambda record, config: "A coin.", lambda config: "all or none", False
)


@pytest.fixture(autouse=True)
def _registered():
    PATTERNS.register(PATTERN)
    yield
    PATTERNS.remove("coin")


def released(mechanism=None) -> Release:
    included = np.arange(NUM_CANARIES) % 2 == 0
    ids = [f"client-{i}" for i in range(300)]
    schedule = make_schedule(
        Coin(rounds=ROUNDS), Canaries(count=NUM_CANARIES, max_per_round=1000), 1, ids, included
    )
    mechanism = mechanism or GaussianFixed(noise_multiplier=3.0, clip_norm=1.0)
    noise = round_noise(mechanism, schedule.expected_cohort)
    return describe(mechanism, noise, schedule, NUM_CANARIES)


def test_it_is_accounted_with_the_draw_and_in_its_words():
    release = released()
    accounting = account(release, 1e-5)
    (by,) = accounting.client.by_accountant
    plain = account_gaussian(3.0, ROUNDS, 1e-5)[-1].epsilon
    assert by.accountant == "coin"
    assert accounting.epsilon == by.epsilon < plain
    assert accounting.neighbours == ADD_OR_REMOVE
    assert "Nobody sees the coins of probability 0.25." in accounting.assumes
    assert why_unfit(release) is None


def test_an_attacker_who_knows_the_rounds_gets_nothing_of_the_draw():
    release = released()
    bounds = attacker_bounds(release, release.canary, 1e-5)
    known = bounds.knowing_rounds.guarantee
    assert known.by_accountant == account_gaussian(3.0, ROUNDS, 1e-5)
    assert bounds.not_knowing_rounds.guarantee.epsilon < known.epsilon


def test_a_run_folder_keeps_it_and_the_report_says_it(tmp_path):
    from fl_audit.formats.folders import RunFolder

    folder = fill(RunFolder(tmp_path))
    made = dataclasses.replace(read_record(folder), release=released())
    folder.record.write_text(record_text(made))
    assert '"kind": "DrawnOnce"' in folder.record.read_text()
    assert read_record(folder).release == released()
    table = {
        **CONFIG,
        "mechanism": {"kind": "gaussian_fixed", "noise_multiplier": 3.0, "clip_norm": 1.0},
        "participation": {"kind": "coin", "rounds": ROUNDS},
    }
    folder.config.write_text(config_to_toml(parse_config(table, "config")))
    report = write_report(folder)
    assert report.analytical.neighbours == ADD_OR_REMOVE
    assert report.analytical.epsilon == account(released(), report.run.delta).epsilon
    assert "Nobody sees the coins" in folder.report_html.read_text()


def test_where_its_module_is_not_imported_nothing_is_taken_for_known(tmp_path):
    from fl_audit.formats.folders import RunFolder

    folder = fill(RunFolder(tmp_path))
    text = record_text(dataclasses.replace(read_record(folder), release=released()))
    folder.record.write_text(text.replace("DrawnOnce", "DrawnElsewhere"))
    release = read_record(folder).release
    assert release.client.sampling == release.canary.sampling == UnknownRounds()
    assert account(release, 1e-5).epsilon is None
    assert why_unfit(release) is not None
