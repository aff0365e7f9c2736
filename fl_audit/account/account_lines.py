"""The accounting of a source on one screen."""

import decimal
import textwrap
from collections.abc import Iterator

from fl_audit.account.account_record import AccountRecord, Bounds
from fl_audit.accounting.guarantee import ACCOUNTANT_TITLES
from fl_audit.accounting.upper_bounds import Attacker
from fl_audit.number_words import count, delta_text, significant
from fl_audit.text_table import TextTable

_DIGITS = 4


def account_lines(record: AccountRecord, width: int, found_for: float | None = None) -> list[str]:
    """The lines for the terminal; `found_for` is the epsilon that determined the noise, if any."""
    lines = _wrapped(_head(record, found_for), width)
    lines += ["", *_table(record).lines(width), ""]
    lines += _reasons(record, width)
    lines += _wrapped(f"Neighbouring relation: {record.neighbours}.", width)
    lines += ["Assumptions:"]
    for sentence in record.assumes:
        lines += _wrapped(f"- {sentence}", width, "  ")
    return lines


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent=indent)


def _head(record: AccountRecord, found_for: float | None) -> str:
    """The source and its noise; the target epsilon if the noise was calculated from it."""
    source = record.source
    release = source.release
    multiplier = release.noise.noise_multiplier
    start = f"{source.name}: upper bounds by accounting at δ = {delta_text(source.delta)}; "
    noise = f"noise multiplier {multiplier:g}"
    if found_for is not None:
        noise += f", the least for ε ≤ {found_for:g} for a client"
    return f"{start}{noise}, {count(release.rounds, 'round')}{_participations(record)}."


def _participations(record: AccountRecord) -> str:
    """Words on the most participations of client and canary; empty if neither is fixed."""
    client, canary = (
        bounds.guarantee.participations for bounds in record.bounds[Attacker.KNOWS_ROUNDS]
    )
    if client is None and canary is None:
        return ""
    if client == canary:
        return f", at most {client:,} of a client or canary"
    parts = [
        f"at most {number:,} of a {name}"
        for name, number in (("client", client), ("canary", canary))
        if number is not None
    ]
    return f", {', '.join(parts)}"


def _distinct(record: AccountRecord) -> dict[str, tuple[Bounds, Bounds]]:
    """The bounds by attacker; equal bounds with and without the schedule are merged."""
    of_any = record.bounds[Attacker.DOES_NOT_KNOW_ROUNDS]
    bounds = {attacker.heading: both for attacker, both in record.bounds.items()}
    if of_any != record.bounds[Attacker.KNOWS_ROUNDS]:
        return bounds
    uploads = Attacker.SEES_UPLOADS.heading
    others = {uploads: bounds[uploads]} if uploads in bounds else {}
    return {"with or without the schedule": of_any} | others


def _table(record: AccountRecord) -> TextTable:
    """The table of bounds, with a column for each attacker and party."""
    columns: list[Bounds] = []
    head, above = ["ε, tightest marked *"], [""]
    for attacker, (client, canary) in _distinct(record).items():
        parties = [("client or canary", client)]
        if not record.is_alike:
            parties = [("client", client), ("canary", canary)]
        for name, bounds in parties:
            columns.append(bounds)
            head.append(name)
            above.append(attacker)
    rows = [(title, *cells) for title, cells in _rows(columns)]
    return TextTable(head, [row for row in rows if set(row[1:]) != {""}], above)


def _rows(columns: list[Bounds]) -> Iterator[tuple[str, list[str]]]:
    """The rows: a title, and a cell for each column."""
    accountants = dict.fromkeys(
        by.accountant for bounds in columns for by in bounds.guarantee.by_accountant
    )
    for name in accountants:
        yield ACCOUNTANT_TITLES.get(name, name), [_epsilon(bounds, name) for bounds in columns]
    yield "lower bound", [_number(bounds.lower, "≥ ", decimal.ROUND_DOWN) for bounds in columns]
    yield "μ (Gaussian DP)", [_number(bounds.full.mu) for bounds in columns]
    tails = {bounds.full.tail for bounds in columns} - {None}
    for tail in tails:
        yield (
            f"μ, except with probability {delta_text(tail or 0.0)}",
            [_number(bounds.full.approximate_mu) for bounds in columns],
        )
    yield "ρ (zCDP)", [_number(bounds.full.rho) for bounds in columns]
    rates = next((bounds.full.found for bounds in columns if bounds.full.found), ())
    for index, rate in enumerate(rates):
        title = f"true positives at {100 * rate.false_positive_rate:g} % false positives"
        yield title, [_detected(bounds, index) for bounds in columns]


def _number(
    value: float | None, sign: str = "≤ ", rounding: str = decimal.ROUND_UP, unit: str = ""
) -> str:
    return "" if value is None else f"{sign}{significant(value, _DIGITS, rounding)}{unit}"


def _epsilon(bounds: Bounds, accountant: str) -> str:
    by = next((by for by in bounds.guarantee.by_accountant if by.accountant == accountant), None)
    if by is None:
        return ""
    if by.epsilon is None:
        return "none"
    return _number(by.epsilon) + " *" * (accountant == bounds.guarantee.tightest)


def _detected(bounds: Bounds, index: int) -> str:
    if not bounds.full.found:
        return ""
    return _number(100 * bounds.full.found[index].true_positive_rate, unit=" %")


def _reasons(record: AccountRecord, width: int) -> list[str]:
    """Why a column has no epsilon."""
    lines = []
    for attacker, both in _distinct(record).items():
        for name, bounds in zip(("client", "canary"), both, strict=True):
            if bounds.reason is not None and (name == "client" or not record.is_alike):
                who = f"{name}, attacker {attacker}"
                lines += _wrapped(f"No upper bound ({who}): {bounds.reason}.", width)
    return lines
