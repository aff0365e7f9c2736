"""`fl-audit mcmc`: the posterior of epsilon from error counts of several challenge bases."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fl_audit.commands.parser import add_command
from fl_audit.commands.printing import print_json

if TYPE_CHECKING:
    from fl_audit.commands.parser import Commands

_ENOUGH_R_HAT = 1.05
"""Chains with a larger split R-hat have not yet converged (Gelman et al. 2013)."""


def add(commands: "Commands") -> None:
    """Adds the command to the command line."""
    parser = add_command(
        commands,
        _mcmc,
        name="mcmc",
        summary="the posterior of epsilon from error counts of several challenge bases",
        description=(
            "Posterior of epsilon and of the attacks' strength from error counts "
            "(Yıldırım et al. 2025, MCMC-DP-Est)."
        ),
    )
    parser.add_argument("counts", metavar="COUNTS.csv", type=Path, help="fp, n0, fn, n1")
    parser.add_argument("--delta", type=float, required=True, help="in [0, 1)")
    parser.add_argument("--confidence", type=float, default=0.9, help="of each interval")
    parser.add_argument(
        "--correlated",
        action="store_true",
        help="decisions on one base share shadow models (equation 7); needs mhaar, its default",
    )
    parser.add_argument(
        "--alpha-prior",
        default="strength",
        metavar="NAME",
        help=(
            "error rates given epsilon: strength (default; the strength is unknown), uniform, "
            "strongest, or a fixed strength in [0, 1]"
        ),
    )
    parser.add_argument(
        "--method",
        choices=("grid", "mhaar"),
        help="grid: without Monte Carlo (default); mhaar: the paper's Markov chain",
    )
    parser.add_argument("--draws", type=int, help="of mhaar, over all chains; default: 20000")
    parser.add_argument("--burn-in", type=int, help="of mhaar, a chain; default: 1000")
    parser.add_argument("--seed", type=int, default=0, help="of mhaar")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _mcmc(arguments: argparse.Namespace) -> int:
    """Prints the posterior; warns on standard error if the chains have not converged."""
    from fl_audit.estimators.challenge_bases import ChainSettings, Prior, alpha_prior, posterior
    from fl_audit.formats.counts_file import read_counts_file

    chain = {"draws": arguments.draws, "burn_in": arguments.burn_in}
    found = posterior(
        read_counts_file(arguments.counts),
        arguments.delta,
        method=arguments.method,
        correlated=arguments.correlated,
        confidence=arguments.confidence,
        prior=Prior(strength=alpha_prior(arguments.alpha_prior)),
        settings=ChainSettings(**{name: n for name, n in chain.items() if n is not None}),
        seed=arguments.seed,
    )
    if found.r_hat is not None and found.r_hat > _ENOUGH_R_HAT:
        print(
            f"fl-audit: warning: R-hat is {found.r_hat:.3g}, so the chains have not come "
            "together; use more --draws and a longer --burn-in",
            file=sys.stderr,
        )
    if arguments.json:
        print_json(found.to_json())
        return 0
    percent = f"{100 * arguments.confidence:g} %"
    for name, marginal in (("epsilon", found.epsilon), ("strength", found.strength)):
        print(
            f"{name:<9} mean {marginal.mean:.4g}, "
            f"{percent} credible interval {marginal.lower:.4g} to {marginal.upper:.4g}"
        )
    if found.ess is not None:
        print(
            f"acceptance {found.acceptance:.2g}, effective sample size {found.ess:.0f}, "
            f"R-hat {found.r_hat:.4g}"
        )
    return 0
