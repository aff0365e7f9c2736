"""The page of `fl-audit mcmc`, which refers to no other file.

The posterior of epsilon and strength as in Yıldırım et al. (2025), Figures 3, 4 and 6.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from markupsafe import Markup
from matplotlib.axes import Axes

from fl_audit.array_types import FloatArray
from fl_audit.estimators.challenge_bases import ChallengeCounts, Prior
from fl_audit.estimators.challenge_bases.mhaar import MhaarDraws
from fl_audit.estimators.challenge_bases.prior import BetaStrength
from fl_audit.report.figure import draw
from fl_audit.report.posterior_plots import (
    Posterior,
    free_chains,
    has_free_strength,
    plot_autocorrelation,
    plot_epsilon,
    plot_joint,
    plot_rates,
    plot_strength,
    plot_trace,
)
from fl_audit.report.template import render

_WIDTH, _HEIGHT = 4.6, 2.9


@dataclass(frozen=True, eq=False)
class PosteriorReport:
    """What the page of a posterior shows.

    Attributes:
      counts: The counts of the challenge bases.
      delta: The delta of differential privacy.
      confidence: The posterior probability of the intervals.
      prior: The prior of all parameters.
      found: The posterior.
    """

    counts: ChallengeCounts
    delta: float
    confidence: float
    prior: Prior
    found: Posterior


def render_posterior(report: PosteriorReport) -> str:
    """Renders the page as HTML.

    Args:
      report: What it shows.
    """
    found = report.found
    summary = found.summary(report.confidence)
    named = {"ε": summary.epsilon, "s": summary.strength, "τ": summary.tau, "ρ": summary.rho}
    return render(
        "fl_audit.report",
        "posterior.html",
        {
            "report": report,
            "summary": summary,
            "rows": {name: one for name, one in named.items() if one is not None},
            "prior": _words_of_prior(report.prior),
            "densities": _densities(report),
            "chains": _chains(free_chains(found)) if isinstance(found, MhaarDraws) else {},
        },
    )


def _densities(report: PosteriorReport) -> dict[str, Markup]:
    """The figures of the posterior by title."""
    found, prior = report.found, report.prior
    summary = found.summary(report.confidence)
    plots: dict[str, Callable[[Axes], None]] = {
        "ε": partial(plot_epsilon, found=found, prior=prior, interval=summary.epsilon),
        "Error rates": partial(
            plot_rates, counts=report.counts, delta=report.delta, interval=summary.epsilon
        ),
    }
    if has_free_strength(prior):
        plots |= {
            "Strength": partial(plot_strength, found=found, prior=prior, interval=summary.strength),
            "ε and strength": partial(plot_joint, found=found),
        }
    return {title: draw(title, _WIDTH, _HEIGHT, plot) for title, plot in plots.items()}


def _chains(of_names: dict[str, FloatArray]) -> dict[str, Markup]:
    """The figures of the chains by title: traces, and the autocorrelation."""
    correlation = partial(plot_autocorrelation, of_names=of_names)
    traces = {
        f"Trace of {name}": draw(
            f"trace-{name}", _WIDTH, 2.2, partial(plot_trace, name=name, chains=chains)
        )
        for name, chains in of_names.items()
    }
    return {"Autocorrelation": draw("autocorrelation", _WIDTH, _HEIGHT, correlation)} | traces


def _words_of_prior(prior: Prior) -> str:
    strength = prior.strength
    law = (
        f"strength Beta({strength.a:g}, {strength.b:g})"
        if isinstance(strength, BetaStrength)
        else f"strength fixed at {strength.value:g}"
    )
    return f"ε half-normal with variance {prior.epsilon_variance:g}, {law}"
