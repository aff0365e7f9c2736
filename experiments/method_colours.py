"""The colour of each method in the experiments' pictures: one colour in all of them.

As on the pages of a run, lower bounds are blue and estimates orange. Methods that share a colour
never stand in one picture.
"""

from fl_audit.report.chart import BLUE, GREEN, ORANGE, PURPLE

COLOURS = {
    "threshold_jeffreys": BLUE,
    "threshold_clopper_pearson": GREEN,
    "one_run": BLUE,
    "one_run_valid": GREEN,
    "gaussian_fit": ORANGE,
    "epsilon_star": ORANGE,
    "epsilon_star_empirical": PURPLE,
    "bayes": ORANGE,
    "mcmc": ORANGE,
}
"""By the method's name in `fl-audit estimate`; `mcmc` is the posterior of `fl-audit mcmc`."""
