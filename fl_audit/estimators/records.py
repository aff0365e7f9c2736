"""Estimates as rows of a data frame, and as tables in a notebook."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from fl_audit.errors import InputError
from fl_audit.estimators.method_groups import METHOD_GROUPS
from fl_audit.number_words import epsilon_text, lower_bound_text

if TYPE_CHECKING:
    from fl_audit.estimators.result import Estimate

Record = dict[str, object]
"""A row: the names of columns and their values, infinities as floats."""


def record_of(estimate: "Estimate") -> Record:
    """An estimate as a row, without the method's own numbers (`details`)."""
    return {
        "method": estimate.method,
        "kind": estimate.kind,
        "epsilon": estimate.epsilon,
        "lower": estimate.lower,
        "upper": estimate.upper,
        "valid_for": estimate.valid_for,
        "assumes": estimate.assumes,
        "guarantee": estimate.guarantee,
        "source": estimate.source,
    }


def data_frame(records: Sequence[Mapping[str, object]]) -> Any:
    """The rows as a `pandas.DataFrame`.

    Raises:
      InputError: pandas is not installed.
    """
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise InputError(
            "this needs pandas, which is not installed: `pip install pandas`; records() gives the "
            "same rows as a list"
        ) from error
    return pd.DataFrame(records)


def html_table(estimates: Sequence["Estimate"]) -> str:
    """The estimates as a table in HTML, those that may be relied on most first."""
    rows = "".join(_group_rows(estimates))
    return f"<table><tr><th>method</th><th>ε</th><th>interval</th></tr>{rows}</table>"


def html_of(estimate: "Estimate") -> str:
    """One estimate in HTML: its row, and what it guarantees and assumes."""
    words = f"{estimate.guarantee} Assumes: {estimate.assumes}. {estimate.source}."
    return f"{html_table([estimate])}<p>{escape(words)}</p>"


def _group_rows(estimates: Sequence["Estimate"]) -> Iterator[str]:
    for group in METHOD_GROUPS:
        found = [made for made in estimates if group.has(made.kind, made.valid_for)]
        if found:
            heading = f"<b>{escape(group.title)}.</b> {escape(group.meaning)}"
            yield f'<tr><td colspan="3" style="text-align: left">{heading}</td></tr>'
        yield from map(_row, found)


def _row(estimate: "Estimate") -> str:
    is_bound = estimate.kind == "lower_bound"
    ends = f"{epsilon_text(estimate.lower)} … {epsilon_text(estimate.upper)}"
    cells = (
        estimate.method,
        f"≥ {lower_bound_text(estimate.epsilon)}" if is_bound else epsilon_text(estimate.epsilon),
        ends if estimate.kind == "interval" else "",
    )
    style = "text-align: left; white-space: nowrap"
    aligned = "".join(f'<td style="{style}">{escape(cell)}</td>' for cell in cells)
    return f'<tr title="{escape(estimate.guarantee)}">{aligned}</tr>'
