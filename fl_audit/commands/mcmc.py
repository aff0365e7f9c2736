"""`fl-audit mcmc`: the posterior of epsilon from error counts of several challenge bases."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from fl_audit.commands.parser import Commands, add_command, output_file
from fl_audit.commands.printing import print_json, print_path, write_page
from fl_audit.progress import warn

if TYPE_CHECKING:
    from fl_audit.estimators.challenge_bases import PosteriorSummary

_ENOUGH_R_HAT = 1.05
"""Chains with a larger split R-hat have not converged (Gelman et al. 2013)."""

_CHAIN_FLAGS = {
    "--draws": "mhaar: draws of all chains together; default: 20000",
    "--burn-in": "mhaar: discarded first draws of each chain; default: 1000",
    "--chains": "mhaar: chains, at least 4; default: 8",
    "--auxiliary": "mhaar: K of Algorithm 1, the error rates per base and move; default: 32",
}


def add(commands: Commands) -> None:
    """Adds the command to the command line."""
    parser = add_command(
        commands,
        _mcmc,
        name="mcmc",
        summary="posterior of epsilon from counts of attacks on several datasets",
        description=(
            "Posterior of epsilon and of the attacks' strength from error counts "
            "(Yıldırım et al. 2025, MCMC-DP-Est)."
        ),
        example="fl-audit mcmc runs/attack/counts.csv --delta 1e-5",
    )
    parser.add_argument(
        "counts", metavar="COUNTS.csv", type=Path, help="a file with the columns fp, n0, fn, n1"
    )
    parser.add_argument("--delta", type=float, required=True, help="in [0, 1)")
    parser.add_argument("--confidence", type=float, default=0.9, help="confidence of each interval")
    parser.add_argument(
        "--correlated",
        action="store_true",
        help="decisions on one base share shadow models (equation 7); needs mhaar",
    )
    parser.add_argument(
        "--alpha-prior",
        default="strength",
        metavar="NAME",
        help=(
            "prior of error rates given epsilon: strength (unknown strength), uniform, "
            "strongest, a fixed strength in [0, 1], or beta:A,B"
        ),
    )
    parser.add_argument(
        "--epsilon-variance",
        metavar="V",
        type=float,
        default=10.0,
        help="variance of the half-normal prior of epsilon",
    )
    parser.add_argument(
        "--method",
        choices=("grid", "mhaar"),
        help="grid: without Monte Carlo; mhaar: the paper's Markov chain; default: grid, or mhaar "
        "with --correlated",
    )
    for flag, help_text in _CHAIN_FLAGS.items():
        parser.add_argument(flag, metavar="N", type=int, help=help_text)
    parser.add_argument("--seed", type=int, default=0, help="seed of mhaar")
    parser.add_argument(
        "--out", metavar="FILE.html", type=output_file, help="write a page with plots"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _mcmc(arguments: argparse.Namespace) -> int:
    """Prints the posterior; warns on standard error if the chains have not converged."""
    from fl_audit.estimators.challenge_bases import (
        ChainSettings,
        Prior,
        alpha_prior,
        full_posterior,
    )
    from fl_audit.estimators.scores import check_confidence
    from fl_audit.formats.score_file import read_counts_file

    check_confidence(arguments.confidence)
    counts, chain_flags = read_counts_file(arguments.counts), _given(arguments)
    prior = Prior(arguments.epsilon_variance, alpha_prior(arguments.alpha_prior))
    posterior = full_posterior(
        counts,
        arguments.delta,
        method=arguments.method,
        correlated=arguments.correlated,
        prior=prior,
        settings=ChainSettings(**chain_flags),
        seed=arguments.seed,
    )
    summary = posterior.summary(arguments.confidence)
    _warn(summary, chain_flags)
    if arguments.json:
        print_json(summary.to_json())
    else:
        _print(summary, arguments.confidence)
    if arguments.out is not None:
        from fl_audit.report.posterior import PosteriorReport, render_posterior

        page = PosteriorReport(counts, arguments.delta, arguments.confidence, prior, posterior)
        write_page(render_posterior(page), arguments.out)
        print_path("page", arguments.out, is_json=arguments.json)
    return 0


def _given(arguments: argparse.Namespace) -> dict[str, int]:
    """The given flags of the chains, by field of `ChainSettings`."""
    fields = [flag.removeprefix("--").replace("-", "_") for flag in _CHAIN_FLAGS]
    values = {field: getattr(arguments, field) for field in fields}
    return {field: value for field, value in values.items() if value is not None}


def _warn(summary: "PosteriorSummary", given: dict[str, int]) -> None:
    if summary.r_hat is None and given:
        flags = ", ".join(f"--{field.replace('_', '-')}" for field in given)
        warn(f"the grid has no chains, so {flags} changed nothing; give --method mhaar")
    if summary.r_hat is not None and summary.r_hat > _ENOUGH_R_HAT:
        warn(
            f"R-hat is {summary.r_hat:.3g}, so the chains have not converged; use more --draws and "
            "a longer --burn-in"
        )


def _print(summary: "PosteriorSummary", confidence: float) -> None:
    percent = f"{100 * confidence:g} %"
    for name, marginal in (("epsilon", summary.epsilon), ("strength", summary.strength)):
        print(
            f"{name:<9} mean {marginal.mean:.4g}, "
            f"{percent} credible interval {marginal.lower:.4g} to {marginal.upper:.4g}"
        )
    if summary.ess is not None:
        print(
            f"acceptance {summary.acceptance:.2g}, effective sample size {summary.ess:.0f}, "
            f"R-hat {summary.r_hat:.4g}"
        )
