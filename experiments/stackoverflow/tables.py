"""Tables 2 and 3 of Andrew et al. (2023), with the numbers of a sweep; see README.md.

    python -m experiments.stackoverflow.tables runs/tables_2_3

A row for each of the paper's noise multipliers; what no finished run of the sweep has stays empty.
Several runs of a noise multiplier, such as those of other seeds, are given by their median. Runs
whose canaries coins included (`coins.toml`) are shown in a table of their own, with the one-run
bounds of Steinke et al. (2023), which a fixed half of the pool does not allow. A last table has
what the same scores prove by bounds that hold, and the upper bound from accounting.
"""

import argparse
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dp_accounting.rdp import RdpAccountant

from fl_audit.accounting.renyi import epsilon_of_divergences, sampled_gaussian_divergences
from fl_audit.comparison import ReportedRun, read_reported_runs
from fl_audit.errors import InputError
from fl_audit.number_words import significant, upper_bound_text

CLIENTS, COHORT, ROUNDS = 341_000, 167, 2048
DELTA = CLIENTS**-1.1

ALL, FINAL = "max", "final"
"""The statistics of Table 3's two halves: all aggregates, and the final model alone."""

BOUND, ESTIMATE = "threshold_jeffreys", "gaussian_fit"
"""The methods of the paper's ε_lo and ε_est."""


@dataclass(frozen=True)
class PaperRow:
    """What the paper prints for one noise multiplier.

    Attributes:
      baseline: Accuracy without canaries, in percent (Table 2).
      with_canaries: Accuracy with 1,000 canaries.
      accounted: The analytical ε (Table 3).
      bound_all: ε_lo from all aggregates.
      estimate_all: ε_est from all aggregates.
      bound_final: ε_lo from the final model.
      estimate_final: ε_est from the final model.
    """

    baseline: float
    with_canaries: float
    accounted: str
    bound_all: float
    estimate_all: float
    bound_final: float
    estimate_final: float


PAPER = {
    0.0: PaperRow(25.3, 25.3, "∞", 6.24, 51_300, 3.91, 5.49),
    0.0644: PaperRow(24.0, 23.9, "100k", 6.17, 425, 1.26, 1.74),
    0.1023: PaperRow(23.1, 23.1, "1,000", 4.67, 243, 1.01, 1.22),
    0.1836: PaperRow(21.5, 21.5, "100", 2.44, 92.0, 0.802, 0.865),
    0.2344: PaperRow(20.6, 20.5, "50", 0.177, 78.9, 0.478, 0.675),
}
"""Tables 2 and 3, by noise multiplier."""


def rdp_epsilon(noise_multiplier: float, probability: float = COHORT / CLIENTS) -> float:
    """The paper's analytical ε: Poisson sampling in every round, by RDP at the default orders.

    Section 5 prints a sampling rate of 167/2,048, which is 0.08 and gives 1,818 at noise 0.2344.
    The rate of 167 of 341,000 clients, about 1/2,048, gives the 50 that Table 3 prints.

    Args:
      noise_multiplier: The noise multiplier, above 0.
      probability: The probability of a client in a round.
    """
    orders = RdpAccountant().orders
    of_one_round = sampled_gaussian_divergences(probability, noise_multiplier, orders)
    return epsilon_of_divergences(orders, ROUNDS * of_one_round, DELTA)


def read_runs(sweep: Path) -> list[ReportedRun]:
    """The finished runs of a sweep.

    Raises:
      InputError: It has none, or a file of one cannot be used.
    """
    folders = [report.parent for report in sorted(sweep.glob("runs/*/report.json"))]
    if not folders:
        raise InputError(f"{sweep}: has no finished run in runs/")
    return read_reported_runs(folders)


def table_2(runs: Sequence[ReportedRun]) -> list[str]:
    """Accuracies as Markdown."""
    head = ("noise", "baseline, paper", "here", "1k canaries, paper", "here")
    rows = []
    for noise, paper in PAPER.items():
        of_noise = _of_noise(runs, noise)
        rows.append(
            (
                f"{noise:g}",
                f"{paper.baseline:.1f} %",
                _accuracy(run for run in of_noise if not run.report.num_canaries),
                f"{paper.with_canaries:.1f} %",
                _accuracy(run for run in of_noise if run.report.num_canaries),
            )
        )
    return _markdown(head, rows)


def table_3(runs: Sequence[ReportedRun]) -> list[str]:
    """Bounds and estimates from all aggregates and from the final model, as Markdown."""
    columns = ("ε RDP", "lo-all", "est-all", "lo-final", "est-final")
    head = ("noise", *(word for name in columns for word in (f"{name}, paper", "here")))
    rows = []
    for noise, paper in PAPER.items():
        of_noise = _of_noise(runs, noise)
        pairs = (
            (paper.accounted, significant(rdp_epsilon(noise)) if noise else "∞"),
            (_number(paper.bound_all), _median(of_noise, ALL, BOUND)),
            (_number(paper.estimate_all), _median(of_noise, ALL, ESTIMATE)),
            (_number(paper.bound_final), _median(of_noise, FINAL, BOUND)),
            (_number(paper.estimate_final), _median(of_noise, FINAL, ESTIMATE)),
        )
        rows.append((f"{noise:g}", *(cell for pair in pairs for cell in pair)))
    return _markdown(head, rows)


_ONE_RUN = ("one_run", "one_run_valid", "one_run_fdp")


def one_run_table(runs: Sequence[ReportedRun]) -> list[str]:
    """One-run bounds of the runs whose canaries coins included; nothing where there are none."""
    tossed = [run for run in runs if run.config.get("canaries.inclusion") == "coins"]
    tossed = [run for run in tossed if run.report.num_canaries]
    if not tossed:
        return []
    pairs = [(statistic, method) for statistic in (ALL, FINAL) for method in _ONE_RUN]
    rows = [
        (f"{noise:g}", *(_median(of_noise, *pair) for pair in pairs))
        for noise in PAPER
        if (of_noise := _of_noise(tossed, noise))
    ]
    return _markdown(
        ("noise", *(f"`{method}` on `{statistic}`" for statistic, method in pairs)), rows
    )


_VALID = (
    ("max", "threshold_valid"),
    ("own_rounds", "threshold_valid"),
    ("own_rounds", "shift_fit"),
)


def valid_table(runs: Sequence[ReportedRun]) -> list[str]:
    """Valid bounds, the estimate with its interval, and the upper bound for a canary."""
    head = ("noise", *(f"`{statistic}`: `{method}`" for statistic, method in _VALID), "upper bound")
    rows = []
    for noise in PAPER:
        of_noise = [run for run in _of_noise(runs, noise) if run.report.num_canaries]
        if of_noise:
            upper = of_noise[0].guarantee("canary")
            cells = [_median(of_noise, *pair) for pair in _VALID]
            cells[-1] += _interval(of_noise, *_VALID[-1])
            rows.append((f"{noise:g}", *cells, "" if upper is None else upper_bound_text(upper)))
    return _markdown(head, rows) if rows else []


def _interval(runs: Sequence[ReportedRun], statistic: str, method: str) -> str:
    """The interval of a single run in brackets; nothing of several or of none."""
    ends = [found for run in runs if (found := run.interval(statistic, method)) is not None]
    return f" ({' … '.join(map(significant, ends[0]))})" if len(ends) == 1 else ""


def _of_noise(runs: Sequence[ReportedRun], noise: float) -> list[ReportedRun]:
    return [run for run in runs if run.config["mechanism.noise_multiplier"] == noise]


def _accuracy(runs: Iterable[ReportedRun]) -> str:
    found = [run.record.accuracy for run in runs if run.record is not None]
    return f"{100 * statistics.median(found):.2f} %" if found else ""


def _median(runs: Sequence[ReportedRun], statistic: str, method: str) -> str:
    """The median of one method on one statistic; empty where no run has it."""
    found = [value for run in runs if (value := run.epsilon(statistic, method)) is not None]
    return significant(statistics.median(found)) if found else ""


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:g}"


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def main() -> None:
    """Prints the tables of a sweep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sweep", type=Path, help="the folder of `fl-audit sweep`")
    try:
        runs = read_runs(parser.parse_args().sweep)
    except InputError as error:
        parser.exit(2, f"{error}\n")
    tables = {
        "Table 2": table_2(runs),
        "Table 3": table_3(runs),
        "One run": one_run_table(runs),
        "Valid bounds": valid_table(runs),
    }
    for title, lines in tables.items():
        if lines:
            sys.stdout.write("\n".join([f"{title}:", "", *lines, "", ""]))


if __name__ == "__main__":
    main()
