"""A report for the terminal and for notebooks: the answer in a few lines, estimates in tables."""

import shutil
import textwrap
from collections.abc import Iterable, Mapping
from html import escape

from fl_audit.accounting import Accounting, Guarantee
from fl_audit.estimators.methods import reasons
from fl_audit.estimators.roc import RocSummary
from fl_audit.formats.run_record import RunRecord
from fl_audit.number_words import delta_text, significant, upper_bound_text
from fl_audit.report.arms import arm_lines, arms_as_patterns
from fl_audit.report.checks import CANARY_STATES, canary_check_words, checks_words
from fl_audit.report.headline import INDENT, Headline, headline
from fl_audit.report.report import Report, StatisticReport, register_html
from fl_audit.report.shown_records import (
    estimate_by,
    methods_by_group,
    refuted_statistics,
    risk_lines,
)
from fl_audit.report.verdict_words import reason_sentences
from fl_audit.report.words import rounds_done
from fl_audit.text_table import TextTable
from fl_audit.verdict import Verdict
from fl_audit.verdict.sentences import claim_clause


def answer_lines(headline: Headline, width: int = 100) -> list[str]:
    """The three numbers and one sentence, in lines of at most `width` (at least 40) characters."""
    return _wrapped(headline.lines(), width, then=" " * INDENT)


def _wrapped(
    texts: Iterable[str], width: int | None = None, *, first: str = "", then: str = ""
) -> list[str]:
    """Texts wrapped to a width, by default the terminal's, but at most 100; with indents."""
    if width is None:
        width = min(shutil.get_terminal_size((100, 24)).columns, 100)
    return [
        line
        for text in texts
        for line in textwrap.wrap(
            text,
            max(width, 40),
            initial_indent=first,
            subsequent_indent=then,
            break_on_hyphens=False,
        )
        or [""]
    ]


def leading_lines(report: Report, width: int = 100) -> list[str]:
    """The comparison of arms with about equal numbers of rounds, if any; then the answer."""
    patterns = arms_as_patterns(report.arms, report.faults).lines(max(width, 40))
    return [*patterns, *([""] if patterns else []), *answer_lines(headline(report), width)]


def brief_lines(report: Report) -> list[str]:
    """The run or scores, the mechanism checks and the canary check, in a few lines."""
    if report.run is None:
        refuted = [f"{name}: {reason}" for name, reason in refuted_statistics(report.statistics)]
        return [_scores_head(report), *_wrapped(refuted), *_checks_of_scores(report)]
    accuracy = f"accuracy {significant(100 * report.run.accuracy)} %"
    return [
        f"{_run_head(report.run)}, {accuracy}",
        *_checks(report, INDENT),
    ]


def summary_lines(report: Report, width: int = 100) -> list[str]:
    """All estimates, in as many tables as the width requires, then further facts."""
    run = report.run
    if run is None:
        return [
            _scores_head(report),
            *_tables(report.statistics, width),
            "",
            *_wrapped(
                f"{group.title}: {group.meaning}"
                for group in methods_by_group(report.statistics.values())
            ),
            *(
                line
                for name, statistic in report.statistics.items()
                for line in _notes(name, statistic)
            ),
            *arm_lines(report.arms),
            *_checks_of_scores(report),
        ]
    accuracy = f"accuracy            {significant(100 * run.accuracy)} % "
    return [
        _run_head(run),
        *_tables(report.statistics, width),
        *_wrapped(risk_lines(report), width, then="    "),
        "",
        f"{accuracy}({run.accuracy_description})",
        *arm_lines(report.arms),
        *_analytical(report.analytical),
        *_checks(report, 20),
        *_absences(report),
        *(f"fault of training   {fault.name}: {fault.words}" for fault in report.faults),
        *(f"{name}: {reason}" for name, reason in refuted_statistics(report.statistics)),
    ]


def _run_head(run: RunRecord) -> str:
    return (
        f"{run.num_included} of {run.num_canaries} canaries included, "
        f"δ = {delta_text(run.delta)}, {rounds_done(run)}"
    )


def _scores_head(report: Report) -> str:
    return (
        f"{report.num_included} included and {report.num_canaries - report.num_included} excluded "
        f"canaries, δ = {delta_text(report.delta)}, confidence {100 * report.confidence:g} %"
    )


def _checks_of_scores(report: Report) -> list[str]:
    """The canary check and the mechanism checks of scores, as far as they were made."""
    lines: list[str] = []
    canary_check = report.canary_check
    if canary_check is not None:
        is_faulty = canary_check.state == "arrived" and canary_check.fault is not None
        state = f"{CANARY_STATES[canary_check.state]}{', with a FAULT' if is_faulty else ''}"
        lines += ["", f"canary check {state}: {canary_check.reason}"]
    if report.checks is not None:
        lines.append(f"mechanism checks: {checks_words(report.checks)}")
    return _wrapped(lines)


def verdict_texts(verdict: Verdict) -> tuple[str, list[str]]:
    """The outcome, and the sentences of its reason."""
    sentences = reason_sentences(verdict)
    if verdict.outcome == "contradicted" and verdict.assumes is not None:
        sentences.insert(len(sentences) - 1, f"This assumes: {verdict.assumes}")
    return f"verdict: {verdict.outcome.upper()}{claim_clause(verdict)}", sentences


def verdict_lines(verdict: Verdict | None) -> list[str]:
    """The outcome, then each sentence of its reason on a line."""
    if verdict is None:
        return []
    outcome, sentences = verdict_texts(verdict)
    reason = _wrapped(sentences, first="  ", then="    ")
    return ["", *_wrapped([outcome], then="  "), *reason]


def _notes(name: str, statistic: StatisticReport) -> list[str]:
    """How well a statistic separates canaries, its null, and why a null or method is not used."""
    bounds = (estimate for estimate in statistic.estimates if estimate.valid_for is not None)
    known = dict.fromkeys(str(e.details["null_law"]) for e in bounds if "null_law" in e.details)
    texts = [
        *([] if statistic.roc is None else _separation(statistic.roc)),
        *(f"null distribution of the valid bounds: {null}" for null in known),
        *(f"empirical null: {reason}" for _, reason in refuted_statistics({name: statistic})),
        *(f"left out: {reason}" for reason in reasons(statistic.left_out)),
    ]
    return ["", *_wrapped(f"{name}: {text}" for text in texts)]


def _separation(roc: RocSummary) -> list[str]:
    """How well scores tell included from excluded canaries, in two sentences."""
    interval = roc.auc_interval
    return [
        f"AUC {roc.auc:.4g} ({interval.lower:.4g} to {interval.upper:.4g}), balanced accuracy of "
        f"the best threshold {roc.balanced_accuracy:.4g}",
        "true positive rate "
        + ", ".join(
            f"{100 * point.true_positive_rate:.3g} % at FPR {100 * point.false_positive_rate:g} %"
            for point in roc.operating_points
        ),
    ]


def _checks(report: Report, indent: int) -> list[str]:
    """The mechanism checks and the canary check, after labels of width `indent`."""
    labelled = {} if report.checks is None else {"checks": checks_words(report.checks)}
    if report.canary_check is not None:
        labelled["canary check"] = canary_check_words(report.canary_check)
    lines = (f"{label:<{indent}}{words}" for label, words in labelled.items())
    return _wrapped(lines, then=" " * indent)


def _analytical(analytical: Accounting | None) -> list[str]:
    if analytical is None:
        return []
    client, canary = analytical.client, analytical.canary
    words = _upper_bound(client, " for a client")
    if canary.epsilon != client.epsilon:
        words += f", {_upper_bound(canary, ' for a canary')}"
    elif client.epsilon is None:
        words = _upper_bound(client)
    return [f"upper bound         {words}"]


def _upper_bound(party: Guarantee, whom: str = "") -> str:
    if party.epsilon is None:
        return f"none known{whom} ({party.by_accountant[0].reason})"
    return f"{upper_bound_text(party.epsilon)}{whom}"


def _absences(report: Report) -> list[str]:
    """A line per threat model in whose rounds some included canaries are absent."""
    return [
        f"{name}: {view.num_included_in_rounds} of {report.num_included} included canaries "
        f"participated in {_rounds(view.first_round, view.last_round)}"
        for name, view in report.partly_absent().items()
    ]


def _rounds(first: int | None, last: int | None) -> str:
    return f"round {first}" if first == last else f"rounds {first} to {last}"


def _tables(statistics: Mapping[str, StatisticReport], width: int) -> list[str]:
    """A row per method in its group, a column per statistic; empty without canaries."""
    if not statistics:
        return []
    rows: list[tuple[str, ...] | str] = []
    for group, methods in methods_by_group(statistics.values()).items():
        rows.append(group.title[0].lower() + group.title[1:])
        for method in methods:
            epsilons = (estimate_by(statistic, method) for statistic in statistics.values())
            rows.append((f"  {method}", *epsilons))
    models = [statistic.threat_model for statistic in statistics.values()]
    above = ("threat model", *models) if any(models) else ()
    table = TextTable(("statistic", *statistics), rows, above)
    return ["", *table.lines(width)]


def report_html(report: Report) -> str:
    """The answer and the brief lines, as at the end of `fl-audit run`, in HTML."""
    lines = [*leading_lines(report), *brief_lines(report)]
    return f"<pre>{escape(chr(10).join(lines))}</pre>"


register_html(report_html)
