"""A report's numbers in sentences."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fl_audit.config import Config, GaussianAdaptive
from fl_audit.report.finished_run import FinishedRun
from fl_audit.report.numbers import count, epsilon_text, significant
from fl_audit.report.participation_words import canary_rounds, client_rounds
from fl_audit.run_folder import RunRecord

ACCOUNTANT_TITLES = {
    "rdp": "Rényi DP",
    "pld": "Privacy loss distributions",
    "analytic_gaussian": "Exact (analytic Gaussian)",
    "seen_samples": "Exact where the attacker sees who was drawn",
}


def findings(report: dict[str, Any]) -> list[str]:
    """Three sentences: what this audit's attackers saw, what is proven, what none can exceed."""
    final = epsilon_by(report, "final_minus_initial", "gaussian_fit")
    rounds = epsilon_by(report, "max", "gaussian_fit")
    seen = (
        f"An attacker who sees the initial and the final model learns about a canary as much as "
        f"{_epsilon('≈', final)} allows (δ = {significant(report['run']['delta'])}); one who "
        f"sees the noised update of every round, as much as {_epsilon('≈', rounds)}."
    )
    canary = report["analytical"]["canary"]["epsilon"]
    client = report["analytical"]["client"]["epsilon"]
    guaranteed = _guarantee(canary, client) + _comparison([final, rounds], canary, client)
    return [seen, _proven(report), guaranteed]


def _proven(report: dict[str, Any]) -> str:
    """The bounds that hold although their threshold is chosen on the data."""
    final = epsilon_by(report, "final_minus_initial", "threshold_valid")
    rounds = epsilon_by(report, "max", "threshold_valid")
    confidence = f"{100 * report['statistics']['max']['confidence']:g}"
    return (
        f"With {confidence} % confidence each, {_epsilon('≥', final)} for the first and "
        f"{_epsilon('≥', rounds)} for the second: these bounds hold, the estimates may not."
    )


def _epsilon(relation: str, value: float | str | None) -> str:
    """Such as "ε ≤ 4.50", which no line break parts."""
    return f"ε\N{NO-BREAK SPACE}{relation}\N{NO-BREAK SPACE}{epsilon_text(value)}"


def epsilon_by(report: Mapping[str, Any], statistic: str, method: str) -> float | str | None:
    """The epsilon of report.json on one statistic by one method; None where it was left out."""
    for estimate in report["statistics"][statistic]["estimates"]:
        if estimate["method"] == method:
            epsilon: float | str = estimate["epsilon"]
            return epsilon
    return None


def _guarantee(canary: float | str | None, client: float | str | None) -> str:
    if canary is None or client is None:
        return "What the noise guarantees against any attacker is not known for this run"
    if canary == "inf":
        return "No noise was added, so that nothing is guaranteed against a stronger attacker"
    if canary == client:
        return f"Against any attacker, the noise guarantees {_epsilon('≤', canary)}"
    return (
        f"Against any attacker, the noise guarantees {_epsilon('≤', canary)} to a canary and "
        f"{_epsilon('≤', client)} to a real client"
    )


def _comparison(
    estimates: list[float | str | None], canary: float | str | None, client: float | str | None
) -> str:
    """How the estimates, which are about canaries, compare with the guarantee to a canary."""
    if canary is None or client is None or canary == "inf":
        return "."
    if any(float(value) > float(canary) for value in estimates if value is not None):
        return (
            "; an estimate above the canary’s is chance, a Gaussian fit that does not hold, or a "
            "fault in the training."
        )
    return "; what lies between is room for a better attack."


def description(run: FinishedRun) -> list[str]:
    """The config in sentences, with what came of it."""
    record, config = run.record, run.config
    return [
        f"The task is {record.task}: a model of d = {record.dim:,} trainable parameters, trained "
        f"for {count(record.rounds, 'round')} on {count(record.num_clients, 'client')}.",
        client_rounds(record, config.participation),
        _canaries(run),
        _mechanism(record, config),
        f"A client runs {count(config.client.epochs, 'epoch')} of SGD with learning rate "
        f"{config.client.learning_rate:g} on batches of {config.client.batch_size}; the "
        f"server applies updates with learning rate {config.server.learning_rate:g} "
        f"and momentum {config.server.momentum:g}.",
        f"The seed is {config.seed}.",
        f"The final model’s accuracy is {significant(100 * record.accuracy)} % "
        f"({record.accuracy_description}).",
    ]


def _canaries(run: FinishedRun) -> str:
    record, presentations = run.record, run.presentations
    start = (
        f"Of {record.num_canaries:,} {run.config.canaries.family.capitalize()} canaries, a fair "
        f"coin each included {record.num_included:,}"
    )
    if len(presentations) == 0:
        return f"{start}."
    least, most = int(presentations.min()), int(presentations.max())
    rounds = f"{least} to {count(most, 'round')}, {np.median(presentations):g} at the median"
    if least == most:
        rounds = count(least, "round")
    drawn = canary_rounds(run.config.participation)
    return f"{start}; an included canary took part in {rounds}. {drawn}"


def _mechanism(record: RunRecord, config: Config) -> str:
    mechanism = config.mechanism
    if isinstance(mechanism, GaussianAdaptive):
        clip = (
            f"Updates are clipped to a norm that starts at {mechanism.clip_norm:g} and "
            f"follows the {mechanism.target_quantile:g} quantile of their norms"
        )
    else:
        clip = f"Updates are clipped to norm {mechanism.clip_norm:g}"
    return f"{clip}{_noise(record)}"


def _noise(record: RunRecord) -> str:
    if record.noise_multiplier == 0:
        return "; no noise is added."
    effective = f"{record.noise_multiplier:g}"
    if record.count_noise_stddev == 0:
        return f"; Gaussian noise of {effective} clip norms is added to their sum."
    return (
        f"; the effective noise multiplier is {effective}, made of Gaussian noise of "
        f"{significant(record.sum_noise_multiplier)} clip norms on the sum of updates and of "
        f"{significant(record.count_noise_stddev)} clients on the count that moves the clip norm."
    )
