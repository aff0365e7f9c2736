"""The quickstart: two audited runs that differ only in their noise."""

import importlib.resources
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fl_audit.config.file import load_config
from fl_audit.number_words import epsilon_text, lower_bound_text, upper_bound_text
from fl_audit.pipeline.runs import start_run
from fl_audit.run.folder_and_checkpoints import check_new
from fl_audit.text_table import TextTable

if TYPE_CHECKING:
    from fl_audit.report import Report
    from fl_audit.report.headline import Headline

NOISE_MULTIPLIERS = (0.0, 0.3)
"""Without noise, and with enough to lower the estimates clearly."""


def free_folder(parent: Path) -> Path:
    """The first path `quickstart-N` that does not exist in a folder."""
    number = 1
    while (parent / f"quickstart-{number}").exists():
        number += 1
    return parent / f"quickstart-{number}"


def folder_name(noise_multiplier: float) -> str:
    return f"noise_{noise_multiplier:g}"


def run(out: Path) -> dict[float, "Report"]:
    """Performs both runs in a new or empty folder; returns their reports by noise multiplier."""
    check_new(out)
    reports = {}
    with importlib.resources.as_file(importlib.resources.files("fl_audit.pipeline")) as package:
        for noise_multiplier in NOISE_MULTIPLIERS:
            override = f"mechanism.noise_multiplier={noise_multiplier}"
            config = load_config(package / "quickstart.toml", [override])
            reports[noise_multiplier] = start_run(config, out / folder_name(noise_multiplier))
    return reports


def _estimate(answer: "Headline") -> str:
    estimate = answer.estimate_within()
    return "none" if estimate is None else epsilon_text(estimate)


def comparison(reports: "Mapping[float, Report]") -> str:
    """A table of the runs: accuracy, and the numbers of their headlines."""
    from fl_audit.report.headline import headline

    answers = [headline(report) for report in reports.values()]
    accuracies = [report.run.accuracy for report in reports.values() if report.run is not None]
    rows = [
        ["accuracy", *(f"{accuracy:.3f}" for accuracy in accuracies)],
        ["upper bound, canary", *(upper_bound_text(answer.upper_bound) for answer in answers)],
        ["lower bound", *(lower_bound_text(answer.lower_bound_epsilon()) for answer in answers)],
        ["estimate", *(_estimate(answer) for answer in answers)],
    ]
    return "\n".join(TextTable(["", *(f"noise {noise:g}" for noise in reports)], rows).lines())
