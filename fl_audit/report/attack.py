"""Results of an attack on trained models: the record, its JSON, and its page."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes

from fl_audit.array_types import FloatArray
from fl_audit.estimators import AuditResult, CanaryScores, Estimate
from fl_audit.estimators.challenge_bases.counts_and_priors import ChallengeCounts, Prior
from fl_audit.estimators.challenge_bases.grid import GridPosterior
from fl_audit.estimators.counts import ConfusionCounts, EpsilonPosterior
from fl_audit.estimators.roc.curve import RocCurve
from fl_audit.json_records import to_json
from fl_audit.membership.outputs import ModelPrivacy
from fl_audit.number_words import epsilon_text, lower_bound_text, upper_bound_text
from fl_audit.report.chart import BLUE, FAINT, GREEN, INK, ORANGE, PURPLE, draw, score_histogram
from fl_audit.report.page import render
from fl_audit.report.posterior import plot_epsilon, plot_joint, plot_rates


@dataclass(frozen=True, eq=False)
class AttackedMember:
    """A point or client chosen by SelectWorst (membership/lira.py).

    Attributes:
      index: Index among the task's points (clients' points, then held-out ones), or among clients.
      facts: Further facts by name: a point's label, a client's name and number of examples.
      features: A point's inputs, of any shape; None for a client.
      accuracy: LiRA's accuracy on held-out shadow models.
      separation: Distance between the mean margins with and without the member, in standard
        deviations.
    """

    index: int
    facts: Mapping[str, int | str]
    features: FloatArray | None
    accuracy: float
    separation: float


@dataclass(frozen=True)
class AccountedBound:
    """The upper bound from accounting for an attacked member."""

    epsilon: float  # infinite without a bound
    noise_multiplier: float | None  # noise over clip norm; None without any mechanism
    by: str  # what accounting covers, such as "DP-SGD"
    neighbours: str  # the neighbouring relation, in words
    why_unknown: str | None = None  # as a clause; None with a bound, or without any noise


@dataclass(frozen=True)
class AttackWords:
    """Nouns and sentences that depend on what is attacked."""

    models: str
    member: str  # a single training example or client
    challenge: str
    accuracy: str


@dataclass(frozen=True, eq=False)
class AttackReport:
    """The results of an attack."""

    # scores of the challenges by statistic: lira, loss, margin, and for points rmia and
    # calibrated
    scores: Mapping[str, CanaryScores]
    results: Mapping[str, AuditResult]
    counts: ChallengeCounts  # errors of the loss-based attack on each base
    posterior: GridPosterior  # posterior of epsilon given `counts`
    privacy: ModelPrivacy  # epsilon* of one model, of its training set against other points
    members: tuple[AttackedMember, ...]
    accuracy: float  # mean accuracy of the attacked models, in [0, 1]
    upper_bound: AccountedBound
    words: AttackWords
    num_models: int
    delta: float
    confidence: float

    def to_json(self) -> dict[str, object]:
        """The object of report.json; infinity is the word "inf"."""
        counts = self.counts
        rows = zip(counts.fp, counts.n0, counts.fn, counts.n1, strict=True)
        return {
            "delta": self.delta,
            "confidence": self.confidence,
            "num_models": self.num_models,
            "accuracy": self.accuracy,
            "analytical_epsilon": to_json(self.upper_bound.epsilon),
            "noise_multiplier": self.upper_bound.noise_multiplier,
            "statistics": {name: result.to_json() for name, result in self.results.items()},
            "counts": [
                {"fp": int(fp), "n0": int(n0), "fn": int(fn), "n1": int(n1)}
                for fp, n0, fn, n1 in rows
            ],
            "posterior": self.posterior.summary(self.confidence).to_json(),
            "epsilon_star": {
                "gaussian": to_json(self.privacy.gaussian.epsilon),
                "empirical": to_json(self.privacy.empirical.epsilon),
            },
            f"{self.words.member}s": [
                {
                    "index": member.index,
                    **member.facts,
                    "accuracy": member.accuracy,
                    "separation": member.separation,
                }
                for member in self.members
            ],
        }


_LEAST_SIDE = 4
"""The smallest side, in pixels, of inputs that are drawn as a picture."""

_TITLES = {"lira": "LiRA", "rmia": "RMIA", "calibrated": "calibrated margin"}
"""The page's names of statistics, where the names in files differ."""

_COLOURS = {"lira": ORANGE, "margin": BLUE, "loss": INK, "rmia": GREEN, "calibrated": PURPLE}


def render_attack(report: AttackReport) -> str:
    return render(
        "fl_audit.report",
        "attack.html",
        {
            "report": report,
            "rows": [_row(name, result) for name, result in report.results.items()],
            "roc": draw("roc", 3.6, 2.7, lambda axes: _plot_roc(axes, report)),
            "histogram": score_histogram("lira", report.scores["lira"], None, report.words.models),
            "density": draw("density", 3.6, 2.7, lambda axes: _plot_density(axes, report)),
            "members": [(_picture(member), _caption(report, member)) for member in report.members],
            **_counts_posterior(report),
            "guarantee": _guarantee(report),
            "star": epsilon_text(report.privacy.gaussian.epsilon),
        },
    )


def _guarantee(report: AttackReport) -> str:
    """The upper bound from accounting, and whether a lower bound contradicts it."""
    upper_bound = report.upper_bound
    if math.isinf(upper_bound.epsilon):
        no_noise = f"no noise of a known distribution covers a single {report.words.member}"
        return f"Accounting gives no upper bound: {upper_bound.why_unknown or no_noise}."
    # The first statistic alone: the largest of several bounds would hold with less confidence.
    first = next(iter(report.results.values()))
    lower_bound = _by(first, "threshold_valid").lower or 0.0
    verdict = (
        "The lower bound does not exceed it."
        if lower_bound <= upper_bound.epsilon
        else f"The lower bound of {lower_bound_text(lower_bound)} contradicts it, with "
        f"{100 * report.confidence:g} % confidence: the training is not as configured."
    )
    return (
        f"Upper bound from accounting, {upper_bound.by} with noise multiplier "
        f"{upper_bound.noise_multiplier:.4g}: ε ≤ {upper_bound_text(upper_bound.epsilon)} for "
        f"{upper_bound.neighbours}. {verdict}"
    )


def _caption(report: AttackReport, member: AttackedMember) -> str:
    facts = ", ".join(f"{name} {value}" for name, value in member.facts.items())
    return (
        f"{report.words.member.capitalize()} {member.index}, {facts}: LiRA decides "
        f"correctly on {100 * member.accuracy:.1f} % of held-out shadow {report.words.models}."
    )


def _by(result: AuditResult, method: str) -> Estimate:
    return next(estimate for estimate in result.estimates if estimate.method == method)


def _row(name: str, result: AuditResult) -> tuple[str, ...]:
    """A statistic's title, credible interval, lower bound, errors and AUC."""
    assert result.roc is not None  # challenges have scores of both kinds
    bayes = _by(result, "bayes")
    errors = f"{bayes.details['false_negatives']} + {bayes.details['false_positives']}"
    return (
        _TITLES.get(name, name),
        f"{epsilon_text(bayes.lower)} to {epsilon_text(bayes.upper)}",
        lower_bound_text(_by(result, "threshold_valid").lower),
        errors,
        f"{result.roc.auc:.4f}",
    )


def _counts_posterior(report: AttackReport) -> dict[str, object]:
    """The posterior given the error counts: summary and figures (Yıldırım et al., Figure 3)."""
    posterior = report.posterior
    summary = posterior.summary(report.confidence)
    plots: dict[str, Callable[[Axes], None]] = {
        "Error rates": partial(
            plot_rates, counts=report.counts, delta=report.delta, interval=summary.epsilon
        ),
        "ε": partial(plot_epsilon, posterior=posterior, prior=Prior(), interval=summary.epsilon),
        "ε and strength": partial(plot_joint, posterior=posterior),
    }
    figures = {title: draw(title, 3.6, 2.5, plot) for title, plot in plots.items()}
    return {"posterior": summary, "of_counts": figures}


def _plot_roc(axes: Axes, report: AttackReport) -> None:
    for name, scores in report.scores.items():
        curve = RocCurve.from_scores(scores)
        axes.step(
            curve.false_positive_rates,
            curve.true_positive_rates,
            where="post",
            color=_COLOURS[name],
            label=_TITLES.get(name, name),
        )
    axes.plot([0, 1], [0, 1], ":", color=FAINT)
    axes.set(xlabel="false positive rate", ylabel="true positive rate")
    axes.legend(loc="lower right")


def _plot_density(axes: Axes, report: AttackReport) -> None:
    """Plots the density of epsilon at LiRA's best threshold (Zanella-Béguelin et al. 2022, A.2)."""
    details = _by(report.results["lira"], "bayes").details
    names = (field.name for field in dataclasses.fields(ConfusionCounts))
    counts = ConfusionCounts(**{name: int(str(details[name])) for name in names})
    posterior = EpsilonPosterior(counts, report.delta)
    epsilon = np.linspace(0, posterior.quantile(0.999), 300)[1:]
    axes.plot(epsilon, posterior.pdf(epsilon), color=ORANGE)
    if report.upper_bound.epsilon < epsilon[-1]:
        axes.axvline(report.upper_bound.epsilon, color=INK, linestyle="--", label="upper bound")
        axes.legend(loc="upper right")
    axes.set(xlabel="ε", ylabel="posterior density")


def _picture(member: AttackedMember) -> Markup | None:
    """The drawing of a point whose inputs are a picture (`_pixels`); None for other members."""
    pixels = None if member.features is None else _pixels(member.features)
    if pixels is None:
        return None

    def plot(axes: Axes) -> None:
        axes.pcolormesh(pixels[::-1], cmap="gray_r")
        axes.set_aspect("equal")
        axes.set_axis_off()

    return draw(f"point-{member.index}", 1.8, 1.9, plot)


def _pixels(features: FloatArray) -> FloatArray | None:
    """Pixels of shape (height, width), or (height, width, 3) in [0, 1]; None if it is no picture.

    A flat input is a picture if its length is a square; sides are at least `_LEAST_SIDE`.
    """
    side = math.isqrt(features.size)
    if features.ndim == 1 and side * side == features.size and side >= _LEAST_SIDE:
        return features.reshape(side, side)
    if features.ndim != 3 or min(features.shape[:2]) < _LEAST_SIDE:
        return None
    if features.shape[2] == 1:
        return features[:, :, 0]
    if features.shape[2] != 3:
        return None
    span = np.ptp(features)
    return np.asarray((features - features.min()) / (span if span > 0 else 1.0))
