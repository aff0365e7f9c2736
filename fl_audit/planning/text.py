"""A plan as text for the terminal: all tables, or the answer in a few lines."""

import itertools
import math
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fl_audit.canaries.canary_tables import coin_probability
from fl_audit.estimators import valid_methods
from fl_audit.number_words import (
    count,
    delta_text,
    duration,
    epsilon_text,
    lower_bound_text,
    significant,
    upper_bound_text,
)
from fl_audit.planning.plan import Plan
from fl_audit.planning.planned_power import PlannedEfficiency
from fl_audit.planning.planned_run import PlannedRun
from fl_audit.planning.predicted_background import ENDS, FACTOR
from fl_audit.planning.prediction import (
    FIT,
    Interval,
    Variant,
    coverage,
    predicted_methods,
)
from fl_audit.report.arms import unlike_canaries
from fl_audit.report.headline import ESTIMATE
from fl_audit.text_table import TextTable
from fl_audit.verdict.power import ENOUGH_POWER
from fl_audit.verdict.sentences import detectable_words

_WIDTH = 100


def plan_lines(plan: Plan) -> list[str]:
    """The tables of a plan, each with an explanation."""
    return [
        *head_lines(plan),
        *_prediction(plan),
        *_efficiency(plan),
        *_variants(plan),
        *_power(plan),
        *(["", *_claim(plan)] if plan.detectable is not None else []),
        *_patterns(plan),
        *_cost(plan),
        *_accuracy(plan),
    ]


def _paragraph(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH)


def _table(head: Sequence[str], rows: Sequence[Sequence[str] | str]) -> list[str]:
    return [f"  {line}".rstrip() for line in TextTable(head, rows).lines()]


def head_lines(plan: Plan) -> list[str]:
    run = plan.run
    includes = {
        "coins": "coins include",
        "unequal_coins": f"coins of probability {coin_probability(run.pool):g} include",
        "fixed_half": "a fixed half is included,",
        "pairs": "one of each pair is included,",
    }
    of_seed = "; cohorts are drawn from the seed here, and from a secret in a run"
    return _paragraph(
        f"plan of {run.task.name}: {run.num_canaries:,} canaries, of which "
        f"{includes[run.pool.inclusion]} {int(run.included.sum()):,}; "
        f"{count(run.num_rounds, 'round')} of about "
        f"{significant(run.schedule.expected_clients)} clients and "
        f"{significant(run.schedule.expected_canaries)} canaries; {run.task.dim:,} parameters; "
        f"δ = {delta_text(run.delta)}{of_seed * run.draws_anew}"
    )


def _prediction(plan: Plan) -> list[str]:
    """The table of predicted estimates and bounds, with the analytical epsilon below it."""
    names = [prediction.statistic.name for prediction in plan.predictions]
    rows = [
        [
            ("" if method in (ESTIMATE, FIT) else "≥ ") + method,
            *(interval_text(prediction.epsilons.get(method)) for prediction in plan.predictions),
        ]
        for method in predicted_methods()
        if any(method in prediction.epsilons for prediction in plan.predictions)
    ]
    accounting = plan.accounting
    left_out = f" Not predicted: {', '.join(plan.not_predicted)}." * bool(plan.not_predicted)
    return [
        "",
        "Expected estimates and bounds",
        *_paragraph(
            "Median (range). Unknown before training: whether real updates are orthogonal or "
            f"parallel, within and between rounds, and their norms, here from 1/{FACTOR:g} to "
            f"{FACTOR:g} times mechanism.clip_norm. A run falls into the range with probability "
            f"{100 * coverage(plan.trials):.3g} % ({plan.trials} simulated runs under each of "
            f"{1 + len(ENDS)} assumptions on these unknowns for {FIT}; other rows under the middle "
            f"one and the two where {FIT} is lowest and highest); medians are under the middle "
            f"assumption.{left_out}"
        ),
        *_table(["", *names], rows),
        "  upper bound from accounting, which no valid bound should exceed: for a canary "
        f"{upper_bound_text(accounting.canary.epsilon)}, for a client "
        f"{upper_bound_text(accounting.client.epsilon)}",
    ]


def interval_text(interval: Interval | None) -> str:
    """The median of simulated runs, and the limits of their interval in brackets."""
    if interval is None:
        return "–"
    median, lower, upper = map(epsilon_text, (interval.median, interval.lower, interval.upper))
    return f"{median} ({lower} … {upper})"


_EFFICIENCY: dict[str, tuple[str, Callable[[Any], str]]] = {
    "lower_bound": ("lower bound", lower_bound_text),
    "reachable": ("reachable", lower_bound_text),
    "upper_bound": ("upper bound", upper_bound_text),
    "canaries_for_80_percent": ("canaries for 80 %", "{:,}".format),
    "canaries_for_95_percent": ("for 95 %", "{:,}".format),
}
"""Headings and formats of the columns of a planned efficiency."""


def _efficiency(plan: Plan) -> list[str]:
    """The table of lower bounds, reachable and upper bounds, by statistic."""
    rows = [
        [
            efficiency.statistic,
            *(
                "–" if (value := getattr(efficiency, name)) is None else text(value)
                for name, (_, text) in _EFFICIENCY.items()
            ),
        ]
        for efficiency in plan.efficiency
    ]
    return [
        "",
        "How good the audit would be",
        *_paragraph(
            "Lower bound: the larger median of the valid bounds, under the middle assumption. "
            "Reachable: the median bound of the best single threshold, if it were known in "
            "advance. Upper bound: from accounting, for a canary against the same attacker. Last "
            "columns: the number of canaries, half of them included, with which the best test "
            "reaches 80 % and 95 % of the upper bound."
        ),
        *_table(["", *(head for head, _ in _EFFICIENCY.values())], rows),
    ]


def _variants(plan: Plan) -> list[str]:
    names = [prediction.statistic.name for prediction in plan.predictions]
    variants = [variant for variant in plan.variants if variant.refused is None]
    fits = [[_label(v), *(_median(v, name, (FIT,)) for name in names)] for v in variants]
    bounds = [[_label(v), *(_median(v, name, valid_methods()) for name in names)] for v in variants]
    return [
        "",
        "How the prediction changes with the config",
        *_paragraph(
            f"Medians of {plan.variant_trials} simulated runs (bounds: of half as many) under the "
            "middle assumption, with one key changed at a time (* is the config). The clip norm "
            "cancels in cosines with updates and with differences of models; only `final` depends "
            "on it, because of the initial model."
        ),
        *_table([FIT, *names], fits),
        "",
        *_table(["larger of the valid bounds", *names], bounds),
        *(
            line
            for variant in plan.variants
            if variant.refused is not None
            for line in _paragraph(f"{_label(variant).strip()} cannot be run: {variant.refused}")
        ),
    ]


def _label(variant: Variant) -> str:
    change = variant.change
    return f"{change.key} {change.value:,g}" + (" *" if change.is_planned else "")


def _median(variant: Variant, statistic: str, methods: Sequence[str]) -> str:
    """The largest of the methods' medians."""
    medians = [variant.medians[statistic, m] for m in methods if (statistic, m) in variant.medians]
    return epsilon_text(max(medians)) if medians else "–"


_NOISE = {
    1.0: ("as configured", "as configured"),
    0.5: ("half as much", "with half the noise"),
    0.0: ("none", "without noise"),
}
"""Words for the actual noise, by its share of the configured noise: in a table, in a sentence."""


def _power(plan: Plan) -> list[str]:
    """The table of the power against the config's claim; nothing without a claim."""
    power = plan.power
    if power is None:
        return []
    rows = [
        [
            _NOISE[fault.noise_factor][0],
            percent(fault.contradicted),
            f"{percent(fault.lowest)} … {percent(fault.highest)}",
        ]
        for fault in power.faults
    ]
    claim, k, needed = power.claim, power.num_canaries, power.canaries_needed
    words = [f"{detectable_words(power.detectable_epsilon)} in {percent(ENOUGH_POWER)} of"]
    if power.parts is None and power.simulation is None:
        words.append("simulations")
    elif power.parts is None:
        twice = f"a true ε of {power.ideal_epsilon:g} in {percent(power.ideal_power)}"
        enough = f"; no tried number of canaries reaches {percent(ENOUGH_POWER)}"
        if needed is not None:
            enough = f"; {needed:,} would reach {percent(ENOUGH_POWER)}" * (needed != k)
        words.append(f"simulations. {k:,} canaries notice {twice}{enough}")
    else:
        more = "; more canaries do not help"
        if needed is not None:
            reaches = f"; {needed:,} included canaries would reach twice the claim"
            more = "" if needed == k else reaches
        words.append(
            f"simulations, by the claim's parts: the noise, and the rate of sampling{more}"
        )
    sentence = " ".join(words)
    remarks = [f"{sentence[0].upper()}{sentence[1:]}."]
    if power.accounting is not None:
        given = f"the configured noise gives {power.accounting}"
        remarks.append(f"Accounting contradicts the claim: {given}.")
    elif power.unfit is not None:
        remarks.append(f"But {power.unfit}: no verdict either way.")
    return [
        "",
        f"Power against the claim ε ≤ {claim.epsilon:g} at δ = {delta_text(claim.delta)}",
        *_paragraph(
            "Share of simulated runs that contradict the claim, by the actual noise: under the "
            "middle assumption, and the range under all assumptions on real updates"
            f"{f' ({power.num_tests} bounds together)' * (power.simulation is not None)}."
        ),
        *_table(["noise", "contradicted", "range"], rows),
        *(line for remark in remarks for line in _paragraph(remark)),
    ]


def _patterns(plan: Plan) -> list[str]:
    """The table of canaries needed to distinguish each pattern from the one that leaks least."""
    rows: list[Sequence[str] | str] = []
    for words, pairs in itertools.groupby(plan.patterns, key=lambda pair: pair.attacker):
        found = list(pairs)
        is_least = any(pair.canaries is not None for pair in found)
        least = f"{'least ' * is_least}“{found[0].least}” (AUC {found[0].auc_least:.3f})"
        rows.append(f"to an attacker {words}, {least}{'' if is_least else ', no difference'}")
        for pair in found:
            cells = (
                ("no number", "–")
                if pair.canaries is None or pair.share is None
                else (
                    f"{pair.canaries:,}",
                    f"{max(math.ceil(pair.share), 1):,}",
                )
            )
            rows.append((f"  {pair.more}", f"{pair.auc_more:.3f}", *cells))
    if not rows:
        return []
    head = ["pattern", "AUC", "canaries of each", "such runs"]
    return [
        "",
        "Canaries needed to distinguish patterns from the one that leaks least",
        *_paragraph(
            "The number of canaries of each pattern with which 80 % of audits find a significant "
            "difference, under the middle assumption on real updates, and the number of runs of "
            "the config that together have so many canaries."
        ),
        *_table(head, rows),
    ]


def percent(share: float) -> str:
    """A share as a percentage."""
    return f"{100 * share:.3g} %"


def _cost(plan: Plan) -> list[str]:
    cost = plan.cost
    part = ""
    if cost.canaries_timed < plan.run.num_canaries:
        part = f", extrapolated from {cost.canaries_timed:,} of the canaries"
    rows = [
        [
            "updates a round",
            f"{significant(cost.canaries_per_round)} by canaries in addition to "
            f"{significant(cost.clients_per_round)} by clients ({percent(cost.update_share)} more, "
            f"{_bytes(cost.update_bytes)})",
        ],
        [
            "scoring, measured here",
            f"{significant(cost.scoring_seconds, 2)} s a round, "
            f"{duration(cost.total_scoring_seconds)} over {count(cost.rounds, 'round')}{part}",
        ],
        ["log of cosines", _bytes(cost.log_bytes)],
        ["vectors kept", _bytes(cost.store_bytes) if cost.store_bytes else "none, redrawn"],
    ]
    return ["", "What it costs", *_named(rows)]


def _named(rows: Sequence[Sequence[str]]) -> list[str]:
    width = max(len(name) for name, _ in rows)
    return [f"  {name:<{width}}  {text}" for name, text in rows]


def _bytes(size: int) -> str:
    units = ("bytes", "kB", "MB", "GB", "TB", "PB")
    power = min((len(str(size)) - 1) // 3, len(units) - 1)
    return f"{significant(size / 1000**power)} {units[power]}"


def _accuracy(plan: Plan) -> list[str]:
    """The effect of canaries on the step, the noise and the clip norm."""
    accuracy = plan.accuracy
    rows = [
        [
            "real signal",
            f"{percent(accuracy.dilution)} of what it is without canaries: the sum is divided by "
            "clients and canaries",
        ],
        [
            "noise",
            f"canaries add {significant(accuracy.canary_noise_of_run)} to the noise multiplier "
            f"{significant(accuracy.noise_multiplier)}: "
            f"{significant(accuracy.total_noise)} together",
        ],
        *_clip_rows(accuracy.unclipped_quantile),
    ]
    return [
        "",
        "Effect on accuracy",
        *_named(rows),
        *_paragraph(
            "The cost in accuracy depends on the task and is not predicted. Expect about the "
            "accuracy of a run without canaries, but with this noise, and with the server's "
            "learning rate multiplied by this share of the signal; to measure the cost, run the "
            "config with --set canaries.count=0."
        ),
    ]


def _clip_rows(quantile: float | None) -> list[list[str]]:
    if quantile is None:
        return []
    if quantile > 1:
        text = (
            "grows without end: all canaries are clipped, and they are a larger share than the "
            "quantile allows"
        )
    else:
        text = f"settles where {percent(quantile)} of real updates are below it"
    return [["clip norm", text]]


# The answer.


_LABEL = 14


def answer_lines(plan: Plan) -> list[str]:
    """The strongest attacker's bound and estimate, the claim and the cost."""
    lines = [*head_lines(plan), *bound_lines(plan), *_claim(plan), *_cost_line(plan)]
    lines += _patterns(plan)
    return [*lines, "for the tables: --verbose"]


def _labelled(label: str, text: str) -> list[str]:
    """A labelled text as lines of the answer."""
    return textwrap.wrap(
        f"{label:<{_LABEL}}{text}", _WIDTH, subsequent_indent=" " * _LABEL, break_on_hyphens=False
    )


def bound_lines(plan: Plan) -> list[str]:
    """Expected bound and estimate of the strongest statistic in simulated runs."""
    prediction, efficiency = plan.of_strongest()
    bounds = [prediction.epsilons[m] for m in valid_methods() if m in prediction.epsilons]
    bound = max(bounds, key=lambda interval: interval.median, default=None)
    fit = prediction.epsilons.get(ESTIMATE)
    estimate = f"ε ≈ {interval_text(fit)}{_mean_over(plan.run)}"
    if bound is not None and fit is not None and fit.upper < bound.median:
        estimate = (
            "none: canaries differ too much for a one-parameter Gaussian fit (its median is "
            f"{epsilon_text(fit.median)}, below the lower bound)"
        )
    return [
        *_labelled("lower bound", f"ε ≥ {interval_text(bound)}{_efficiency_words(efficiency)}"),
        *_labelled("estimate", estimate),
    ]


def _mean_over(run: PlannedRun) -> str:
    """Words on the unlike canaries over which an estimate is a mean; empty if they are alike."""
    included = np.flatnonzero(run.included)
    arms = [run.arms[canary] for canary in included] if run.arms else []
    over = unlike_canaries(arms, [run.own_rounds.of_canary[canary] for canary in included])
    return "" if over is None else f", a mean over {over}, not the ε of any single canary"


def _efficiency_words(efficiency: PlannedEfficiency) -> str:
    """The reachable bound on the statistic, and the upper bound from accounting."""
    parts = [f" expected on {efficiency.statistic}"]
    if efficiency.reachable is not None:
        best = lower_bound_text(efficiency.reachable)
        parts.append(f"best threshold’s median {best}")
    if efficiency.upper_bound is not None:
        parts.append(f"upper bound {upper_bound_text(efficiency.upper_bound)}")
    return "; ".join(parts)


def _claim(plan: Plan) -> list[str]:
    """The power against the claim, by the actual noise."""
    power, found = plan.power, plan.detectable or plan.power
    if found is not None and found.accounting is not None:
        return _labelled(
            "claim",
            f"{found.claim.short} contradicted by accounting, whatever canaries show: the "
            f"configured noise gives {found.accounting}",
        )
    if plan.detectable is not None:
        return _labelled("claim", f"{plan.detectable.claim.short}: {plan.detectable.words}")
    if power is None:
        return []
    if power.unfit is not None:
        return _labelled("claim", f"no verdict either way: {power.unfit}")
    shares = (
        f"{percent(fault.contradicted)} {_NOISE[fault.noise_factor][1]}" for fault in power.faults
    )
    return _labelled("claim", f"ε ≤ {power.claim.epsilon:g} contradicted in {', '.join(shares)}")


def _cost_line(plan: Plan) -> list[str]:
    cost = plan.cost
    text = (
        f"{percent(cost.update_share)} more updates a round, scoring "
        f"{duration(cost.total_scoring_seconds)} over the run; clients move the model "
        f"{significant(100 * plan.accuracy.dilution)} % as far as without canaries"
    )
    return _labelled("costs", text)
