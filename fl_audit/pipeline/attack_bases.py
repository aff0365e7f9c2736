"""The models of an attack: their challenges, outputs and results.

Models trained on random halves of the members show which members are easiest to distinguish. Each
such member gets a base, a fixed set of other members; then models are trained on the base with the
member, and without. The models' outputs become scores, error counts, losses and a report.
"""

import abc
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fl_audit.array_types import BoolArray, FloatArray, IntArray
from fl_audit.config.attack_tables import AnyAttack, num_models
from fl_audit.estimators import CanaryScores, estimate
from fl_audit.estimators.challenge_bases.counts_and_priors import ChallengeCounts, Prior
from fl_audit.estimators.challenge_bases.grid import grid_posterior
from fl_audit.formats.score_file import COUNT_COLUMNS, ScoreFile, write_score_file
from fl_audit.formats.text_files import write_text
from fl_audit.membership.games import balanced_coins, fair_coins, indistinguishability_game
from fl_audit.membership.lira import ShadowOutputs, WorstPoints, online_lira, select_worst
from fl_audit.membership.measure_mia import measure_mia
from fl_audit.membership.outputs import MemberOutputs, epsilon_star_of_model
from fl_audit.membership.population import calibrated_margins, rmia
from fl_audit.report.attack import (
    AccountedBound,
    AttackedMember,
    AttackReport,
    AttackWords,
    render_attack,
)
from fl_audit.seeds import Stream, generator

_MODELS_OF_A_BASE = 1_000_000
"""The models of base i (from 1) are numbered from i times this number on."""

_FIRST_CHALLENGE = _MODELS_OF_A_BASE // 2


class Target(abc.ABC):
    """The target of an attack: members, and the training of models on some of them.

    Attributes:
      attack: The numbers of models, and the parameters for judging the models.
      upper_bound: The upper bound from accounting for a member.
      words: The report's nouns.
    """

    attack: AnyAttack
    seed: int
    delta: float
    num_members: int
    upper_bound: AccountedBound
    words: AttackWords

    @abc.abstractmethod
    def train(self, training: BoolArray, first: int) -> MemberOutputs:
        """Trains models, or reads cached models.

        `training` has the members that each model trains on, bool of shape (models, members);
        `first` is the number of the first model.
        """

    @abc.abstractmethod
    def base_without(self, member: int, random: np.random.Generator) -> BoolArray:
        """Which members all models of a base train on, bool; never `member`, an index."""

    @abc.abstractmethod
    def member(self, index: int, accuracy: float, separation: float) -> AttackedMember:
        """A chosen member for the report."""

    def features(self) -> FloatArray | None:
        """Features of every member, of shape (members, f); None if members have no features."""
        return None


@dataclass(frozen=True, eq=False)
class Chosen:
    """The attacked members, and one of the models used for choosing them."""

    worst: WorstPoints
    training: BoolArray  # members of that model's training set, bool of shape (members,)
    margins: FloatArray  # that model's margins, float64 of shape (members,)
    losses: FloatArray  # that model's losses, of the same shape


@dataclass(frozen=True, eq=False)
class AttackedBase:
    """The outputs of the models on one base, for its member.

    Attributes:
      shadow: The member's margins under shadow models, of shape (models, 1).
      challenged: The member's margins under attacked models, of shape (challenges, 1).
      losses: The member's losses under attacked models, float64 of shape (challenges,).
      accuracy: The accuracy of the attacked models, of the same shape.
      by_population: Scores of attacks that compare the member with members outside the base, by
        statistic, each of the same shape; may be empty.
    """

    member: int
    shadow: ShadowOutputs
    challenged: ShadowOutputs
    losses: FloatArray
    accuracy: FloatArray
    by_population: Mapping[str, FloatArray]


def choose_members(target: Target) -> Chosen:
    """Trains models on random halves and chooses the most exposed members.

    Zanella-Béguelin et al. (2022), Algorithm 3. Models come in pairs with complementary training
    sets, so every member is in half of the training sets (Carlini et al. 2022, section IV).
    """
    training = np.zeros((target.attack.num_shadow, target.num_members), np.bool_)
    for model, mask in enumerate(training):
        random = generator(target.seed, Stream.MODEL_POINTS, 0, model // 2)
        mask[random.permutation(target.num_members)[: target.num_members // 2]] = True
        if model % 2:
            np.logical_not(mask, out=mask)
    outputs = target.train(training, 0)
    worst = select_worst(ShadowOutputs(outputs.margins, training), target.attack.num_members)
    return Chosen(worst, training[0], outputs.margins[0], outputs.losses[0])


def attack_base(target: Target, number: int, member: int) -> AttackedBase:
    """Trains the models of one base (number from 0) with and without a member, an index.

    Half of the shadow models train with the member; for each attacked model a fair coin decides, so
    that these are independent given the base. Experiment 2 of Zanella-Béguelin et al. (2022).
    """
    random = generator(target.seed, Stream.MODEL_POINTS, 1, number)
    base = target.base_without(member, random)
    first = _MODELS_OF_A_BASE * (number + 1)
    halves = balanced_coins(target.attack.num_base_shadow, random)
    coins = fair_coins(target.attack.num_challenges, random)
    shadow_outputs = target.train(indistinguishability_game(base, member, halves), first)
    challenge_outputs = target.train(
        indistinguishability_game(base, member, coins), first + _FIRST_CHALLENGE
    )
    shadow_member = ShadowOutputs(shadow_outputs.margins[:, [member]], halves[:, None])
    outside = np.flatnonzero(~base & (np.arange(target.num_members) != member))
    return AttackedBase(
        member=member,
        shadow=shadow_member,
        challenged=ShadowOutputs(challenge_outputs.margins[:, [member]], coins[:, None]),
        losses=challenge_outputs.losses[:, member],
        accuracy=challenge_outputs.accuracy,
        by_population=_by_population(
            target,
            member,
            outside,
            shadow_member=shadow_member,
            shadow_outputs=shadow_outputs,
            challenge_outputs=challenge_outputs,
        ),
    )


def _by_population(
    target: Target,
    member: int,
    outside: IntArray,
    *,
    shadow_member: ShadowOutputs,
    shadow_outputs: MemberOutputs,
    challenge_outputs: MemberOutputs,
) -> Mapping[str, FloatArray]:
    """Scores by RMIA and by calibrated margins; empty without features or members outside."""
    features = target.features()
    if features is None or not len(outside):
        return {}
    attacked, population = (
        challenge_outputs.margins[:, member],
        challenge_outputs.margins[:, outside],
    )
    return {
        "rmia": rmia(attacked, shadow_member, population, shadow_outputs.margins[:, outside]),
        "calibrated": calibrated_margins(attacked, features[member], population, features[outside]),
    }


# Scores, counts, losses and the report.


METHODS = ("bayes", "threshold_valid", "threshold_jeffreys", "threshold_clopper_pearson")
"""Methods of report.json for scores of independent models."""


def score_files(bases: Sequence[AttackedBase]) -> dict[str, ScoreFile]:
    """The challenges' scores by statistic, LiRA's first."""
    scores = {
        "lira": np.concatenate(
            [online_lira(base.challenged.values, base.shadow)[:, 0] for base in bases]
        ),
        "loss": -np.concatenate([base.losses for base in bases]),
        "margin": np.concatenate([base.challenged.values[:, 0] for base in bases]),
        **{
            name: np.concatenate([base.by_population[name] for base in bases])
            for name in bases[0].by_population
        },
    }
    ids = tuple(
        f"{base.member}-{model}" for base in bases for model in range(len(base.challenged.values))
    )
    member = np.concatenate([base.challenged.member[:, 0] for base in bases])
    return {name: ScoreFile(ids, member, values) for name, values in scores.items()}


def error_counts(bases: Sequence[AttackedBase], false_positive_rate: float) -> ChallengeCounts:
    """The errors of the loss-based attack on each base, at one target false positive rate."""
    counts_by_base = []
    for base in bases:
        sides = [
            -models.values[models.member[:, 0] == is_member].T
            for models in (base.challenged, base.shadow)
            for is_member in (False, True)
        ]
        counts_by_base.append(measure_mia(*sides).counts(false_positive_rate))
    return ChallengeCounts(
        *(
            np.concatenate([getattr(counts, name) for counts in counts_by_base])
            for name in COUNT_COLUMNS
        )
    )


def make_report(
    target: Target, scores: Mapping[str, ScoreFile], chosen: Chosen, bases: Sequence[AttackedBase]
) -> AttackReport:
    """The report of the challenges on all bases."""
    attack, worst = target.attack, chosen.worst
    canary_scores: dict[str, CanaryScores] = {
        name: file.canary_scores() for name, file in scores.items()
    }
    counts = error_counts(bases, attack.false_positive_rate)
    return AttackReport(
        scores=canary_scores,
        results={
            name: estimate(
                values, delta=target.delta, confidence=attack.confidence, methods=METHODS
            )
            for name, values in canary_scores.items()
        },
        counts=counts,
        posterior=grid_posterior(counts, target.delta, Prior()),
        privacy=epsilon_star_of_model(
            chosen.margins[chosen.training], chosen.margins[~chosen.training], target.delta
        ),
        members=tuple(
            target.member(int(index), float(accuracy), float(separation))
            for index, accuracy, separation in zip(
                worst.points, worst.accuracy, worst.separation, strict=True
            )
        ),
        accuracy=float(np.mean([base.accuracy for base in bases])),
        upper_bound=target.upper_bound,
        words=target.words,
        num_models=num_models(attack),
        delta=target.delta,
        confidence=attack.confidence,
    )


def write_results(
    folder: Path, scores: Mapping[str, ScoreFile], chosen: Chosen, report: AttackReport
) -> None:
    """Writes all files; report.json is last and marks them as complete."""
    for name, file in scores.items():
        write_score_file(folder / f"scores_{name}.csv", file)
    counts = report.counts
    columns = [getattr(counts, name).tolist() for name in COUNT_COLUMNS]
    _write_csv(folder / "counts.csv", COUNT_COLUMNS, list(zip(*columns, strict=True)))
    for name, members in (("members", chosen.training), ("population", ~chosen.training)):
        losses = [(int(point), float(chosen.losses[point])) for point in np.flatnonzero(members)]
        _write_csv(folder / f"losses_{name}.csv", ("id", "loss"), losses)
    write_text(folder / "report.html", render_attack(report))
    text = json.dumps(report.to_json(), indent=2, allow_nan=False)
    write_text(folder / "report.json", text + "\n")


def _write_csv(path: Path, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    lines = [",".join(columns), *(",".join(map(repr, row)) for row in rows)]
    write_text(path, "\n".join(lines) + "\n")
