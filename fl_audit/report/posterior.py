"""The page of `fl-audit mcmc`, and plots, which the page of an attack uses too.

Page and plots show the posterior of epsilon and of the attacks' strength s, as Yıldırım et al.
(2025) do in Figures 3, 4 and 6.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap

from fl_audit.array_types import FloatArray
from fl_audit.estimators.challenge_bases import ChallengeCounts, Prior
from fl_audit.estimators.challenge_bases.counts_and_priors import BetaStrength, FixedStrength
from fl_audit.estimators.challenge_bases.grid import GridPosterior
from fl_audit.estimators.challenge_bases.mhaar_chains import MhaarDraws
from fl_audit.estimators.challenge_bases.posterior_summary import (
    Marginal,
    PosteriorSummary,
    autocorrelations,
)
from fl_audit.number_words import significant
from fl_audit.report.chart import BLUE, FAINT, INK, ORANGE, draw
from fl_audit.report.page import render

Posterior = GridPosterior | MhaarDraws

_WIDTH, _HEIGHT = 4.6, 2.9


@dataclass(frozen=True, eq=False)
class PosteriorReport:
    """The contents of the page of a posterior."""

    counts: ChallengeCounts  # error counts of the challenge bases
    delta: float
    confidence: float  # posterior probability of the intervals
    prior: Prior
    posterior: Posterior


def render_posterior(report: PosteriorReport) -> str:
    posterior = report.posterior
    summary = posterior.summary(report.confidence)
    named = {"ε": summary.epsilon, "s": summary.strength, "τ": summary.tau, "ρ": summary.rho}
    return render(
        "fl_audit.report",
        "posterior.html",
        {
            "report": report,
            "summary": summary,
            "rows": {name: interval for name, interval in named.items() if interval is not None},
            "prior": _words_of_prior(report.prior),
            "densities": _densities(report, summary),
            "chains": _chains(free_chains(posterior)) if isinstance(posterior, MhaarDraws) else {},
        },
    )


def _densities(report: PosteriorReport, summary: PosteriorSummary) -> dict[str, Markup]:
    """The figures of the posterior's densities and of the error rates, by title."""
    posterior, prior = report.posterior, report.prior
    plots: dict[str, Callable[[Axes], None]] = {
        "ε": partial(plot_epsilon, posterior=posterior, prior=prior, interval=summary.epsilon),
        "Error rates": partial(
            plot_rates, counts=report.counts, delta=report.delta, interval=summary.epsilon
        ),
    }
    if not isinstance(prior.strength, FixedStrength):
        plots |= {
            "Strength": partial(
                plot_strength, posterior=posterior, prior=prior, interval=summary.strength
            ),
            "ε and strength": partial(plot_joint, posterior=posterior),
        }
    return {title: draw(title, _WIDTH, _HEIGHT, plot) for title, plot in plots.items()}


def _chains(chains_by_name: dict[str, FloatArray]) -> dict[str, Markup]:
    """The figures of the chains by title: the autocorrelation, and each parameter's trace."""
    correlation = partial(plot_autocorrelation, chains_by_name=chains_by_name)
    traces = {
        f"Trace of {name}": draw(
            f"trace-{name}", _WIDTH, 2.2, partial(plot_trace, name=name, chains=chains)
        )
        for name, chains in chains_by_name.items()
    }
    return {"Autocorrelation": draw("autocorrelation", _WIDTH, _HEIGHT, correlation)} | traces


def _words_of_prior(prior: Prior) -> str:
    strength = prior.strength
    distribution = (
        f"strength Beta({strength.a:g}, {strength.b:g})"
        if isinstance(strength, BetaStrength)
        else f"strength fixed at {strength.value:g}"
    )
    return f"ε half-normal with variance {prior.epsilon_variance:g}, {distribution}"


_BINS = 60
_LINES = 4
"""Number of chains whose trace is drawn."""
_MOST_OF_A_TRACE = 500
_NUM_LAGS = 100
_NEGLIGIBLE = 5e-4
"""Posterior probability of epsilon beyond each end of an axis."""
_HEAT = LinearSegmentedColormap.from_list("heat", [(0.835, 0.369, 0, a) for a in (0, 1)])
"""Colours from transparent to orange, for any background."""


def plot_epsilon(axes: Axes, posterior: Posterior, prior: Prior, interval: Marginal) -> None:
    """Plots the density of epsilon, its prior and the limits of its interval."""
    start, end = _range_of_epsilon(posterior)
    if isinstance(posterior, GridPosterior):
        axes.plot(
            posterior.epsilon.points, posterior.epsilon.density, color=ORANGE, label="posterior"
        )
    else:
        _histogram(axes, posterior.epsilon, start, end)
    x = np.linspace(start, end, 200)
    axes.plot(x, np.exp(prior.epsilon_logpdf(x)), "--", color=FAINT, label="prior")
    axes.set_xlim(start, end)
    _finish(axes, "ε", interval)


def plot_strength(axes: Axes, posterior: Posterior, prior: Prior, interval: Marginal) -> None:
    """Plots the density of a free strength s, its prior and the limits of its interval."""
    edges = np.linspace(0, 1, _BINS + 1)
    if isinstance(posterior, MhaarDraws):
        _histogram(axes, posterior.strength, 0, 1)
    else:
        masses = posterior.epsilon.weights @ _masses_of_strength(posterior, edges)
        axes.stairs(masses * _BINS, edges, color=ORANGE, fill=True, alpha=0.28)
        axes.stairs(masses * _BINS, edges, color=ORANGE, label="posterior")
    if isinstance(prior.strength, BetaStrength):
        inner = np.linspace(0, 1, 202)[1:-1]
        axes.plot(inner, np.exp(prior.strength.logpdf(inner)), "--", color=FAINT, label="prior")
    axes.set_xlim(0, 1)
    _finish(axes, "strength s", interval)


def plot_joint(axes: Axes, posterior: Posterior) -> None:
    """Plots the joint density of epsilon and strength s; darker means larger."""
    start, end = _range_of_epsilon(posterior)
    strengths = np.linspace(0, 1, _BINS + 1)
    epsilons = np.linspace(start, end, _BINS + 1)
    if isinstance(posterior, GridPosterior):
        density = _masses_of_strength(posterior, strengths) * posterior.epsilon.density[:, None]
        middles = (epsilons[:-1] + epsilons[1:]) / 2
        masses = np.stack([np.interp(middles, posterior.epsilon.points, row) for row in density.T])
    else:
        masses = np.histogram2d(
            posterior.strength.ravel(), posterior.epsilon.ravel(), _BINS, ((0, 1), (start, end))
        )[0]
    axes.pcolormesh(epsilons, strengths, masses, cmap=_HEAT, rasterized=True)
    axes.set(xlabel="ε", ylabel="strength s")


def plot_rates(axes: Axes, counts: ChallengeCounts, delta: float, interval: Marginal) -> None:
    """Plots each base's error rates, and the smallest rates allowed by epsilon's interval."""
    x = np.linspace(0, 1, 401)
    for epsilon, style in ((interval.lower, ":"), (interval.mean, "-"), (interval.upper, ":")):
        steep = np.exp(min(epsilon, 700.0))
        least = np.maximum.reduce([1 - delta - steep * x, (1 - delta - x) / steep, 0 * x])
        label = f"least rates at ε = {significant(epsilon)}" if style == "-" else None
        axes.plot(x, least, style, color=BLUE, lw=1.0, label=label)
    some = (counts.n0 > 0) & (counts.n1 > 0)
    rates = counts.fp[some] / counts.n0[some], counts.fn[some] / counts.n1[some]
    axes.plot(*rates, "o", color=ORANGE, ms=4, alpha=0.7, label="a challenge base")
    # Room for the legend above the rates.
    axes.set(xlim=(-0.02, 1), ylim=(-0.02, 1.4), yticks=np.linspace(0, 1, 6))
    axes.set(xlabel="false positive rate", ylabel="false negative rate")
    axes.legend(loc="upper right")


def plot_trace(axes: Axes, name: str, chains: FloatArray) -> None:
    """Plots one parameter in the first `_LINES` chains by iteration, thinned if they are long."""
    every = max(chains.shape[1] // _MOST_OF_A_TRACE, 1)
    iterations = np.arange(0, chains.shape[1], every)
    colours = (ORANGE, BLUE, INK, FAINT)
    for number, (chain, colour) in enumerate(zip(chains[:_LINES], colours, strict=False), start=1):
        label = f"chain {number}"
        axes.plot(
            iterations,
            chain[iterations],
            color=colour,
            lw=0.5,
            alpha=0.8,
            rasterized=True,
            label=label,
        )
    axes.set(xlabel="iteration after the burn-in", ylabel=name)
    # Room for the legend above the chains.
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + 0.25 * (high - low))
    axes.legend(loc="upper right", ncols=_LINES)


def plot_autocorrelation(axes: Axes, chains_by_name: dict[str, FloatArray]) -> None:
    """Plots the autocorrelation of each parameter's chains by lag (Figure 6)."""
    for (name, chains), colour in zip(
        chains_by_name.items(), (ORANGE, BLUE, INK, FAINT), strict=False
    ):
        axes.plot(autocorrelations(chains, _NUM_LAGS), color=colour, label=name)
    axes.axhline(0, color=FAINT, lw=0.6)
    axes.set(xlabel="lag", ylabel="autocorrelation")
    axes.legend(loc="upper right")


def free_chains(draws: MhaarDraws) -> dict[str, FloatArray]:
    """The draws of each parameter that varies, by name, each float64 of shape (chains, draws)."""
    named = {"ε": draws.epsilon, "s": draws.strength, "τ": draws.tau, "ρ": draws.rho}
    return {n: v for n, v in named.items() if v is not None and np.ptp(v) > 0}


def _range_of_epsilon(posterior: Posterior) -> tuple[float, float]:
    shares = (_NEGLIGIBLE, 1 - _NEGLIGIBLE)
    if isinstance(posterior, GridPosterior):
        first, last = (posterior.epsilon.quantile(p) for p in shares)
    else:
        first, last = (float(end) for end in np.quantile(posterior.epsilon, shares))
    start = 0.0 if first < last / 4 else first
    # Chains that never moved still need a range.
    return start, max(last, start + 1e-9)


def _masses_of_strength(posterior: GridPosterior, edges: FloatArray) -> FloatArray:
    """The mass of s between edges, given each epsilon of the grid; shape (grid, edges - 1)."""
    assert not isinstance(posterior.strength, FixedStrength)
    return np.diff(np.stack([posterior.strength.cdf(float(s)) for s in edges], axis=1), axis=1)


def _histogram(axes: Axes, draws: npt.NDArray[np.float64], start: float, end: float) -> None:
    heights, edges = np.histogram(draws, np.linspace(start, end, _BINS + 1), density=True)
    axes.stairs(heights, edges, color=ORANGE, fill=True, alpha=0.28)
    axes.stairs(heights, edges, color=ORANGE, label="posterior")


def _finish(axes: Axes, name: str, interval: Marginal) -> None:
    for end in (interval.lower, interval.upper):
        axes.axvline(end, color=INK, lw=0.8, linestyle=":")
    axes.set(xlabel=name, ylabel="density")
    axes.set_ylim(bottom=0)
    axes.legend(loc="best")
