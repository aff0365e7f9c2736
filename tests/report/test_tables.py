"""Rows of the report's tables."""

import pytest

from fl_audit.report.tables import accounting_rows, method_groups, noise_rows, normality_rows

NAMES = ("final", "final_minus_initial", "max", "sum")


def estimate(method, kind, epsilon, guarantee="g", valid_for=None, **ends):
    return {
        "method": method,
        "kind": kind,
        "epsilon": epsilon,
        "lower": ends.get("lower"),
        "upper": ends.get("upper"),
        "details": {
            "valid_for": valid_for,
            "guarantee": guarantee,
            "assumes": "a.",
            "source": "s",
        },
    }


def statistics(**estimates):
    return {
        name: {
            "estimates": estimates.get(name, []),
            "left_out": {} if name in estimates else {"m": "needs at least 2 included scores"},
        }
        for name in NAMES
    }


def test_a_row_per_method_with_a_number_per_statistic():
    groups = method_groups(
        statistics(
            final=[estimate("m", "lower_bound", 0.5), estimate("e", "estimate", "inf")],
            max=[estimate("m", "lower_bound", "inf")],
            sum=[estimate("m", "lower_bound", 12.3456, guarantee="other")],
        )
    )
    assert [group.title for group in groups] == [
        "Lower bounds as published",
        "Estimates and intervals",
    ]
    rows = [row for group in groups for row in group.rows]
    assert [row.method for row in rows] == ["m", "e"]
    assert rows[0].epsilons == ("≥ 0.500", "–", "≥ ∞", "≥ 12.3")
    assert rows[1].epsilons == ("∞", "–", "–", "–")
    assert [(note.label, note.text) for note in rows[0].notes] == [
        ("Guarantee (Final model, Largest round)", "g."),
        ("Guarantee (Sum of rounds)", "other."),
        ("Assumes (Final model, Largest round, Sum of rounds)", "a."),
        ("Source (Final model, Largest round, Sum of rounds)", "s."),
        ("Left out (Final − initial)", "needs at least 2 included scores."),
    ]


def test_words_that_all_statistics_share_name_none():
    shared = [estimate("m", "interval", 1.0, lower=0.5, upper="inf")]
    (group,) = method_groups(statistics(**dict.fromkeys(NAMES, shared)))
    (row,) = group.rows
    assert row.epsilons == ("0.500 … ∞",) * 4
    assert [note.label for note in row.notes] == ["Guarantee", "Assumes", "Source"]


def test_what_may_be_relied_on_comes_first():
    made = [
        estimate("fit", "estimate", 3.0),
        estimate("published", "lower_bound", 2.0),
        estimate("gaussian", "lower_bound", 1.5, valid_for="Gaussian mechanisms"),
        estimate("valid", "lower_bound", 1.0, valid_for="any mechanism"),
    ]
    groups = method_groups(statistics(final=made))
    order = [row.method for group in groups for row in group.rows]
    assert order == ["valid", "gaussian", "published", "fit"]


@pytest.mark.parametrize(
    ("value", "reading"),
    [(0.3, "may be Gaussian"), (0.9, "in doubt (15 %)"), (1.2, "not Gaussian (1 %)")],
)
def test_anderson_darling_is_read_at_15_and_1_percent(value, reading):
    test = {"statistic": value, "critical_values": {"0.15": 0.574, "0.01": 1.088}}
    statistic = {"num_included": 9, "anderson_darling": {"included": test, "excluded": None}}
    (row,) = normality_rows({"final": statistic})
    assert (row.statistic, row.group, row.num, row.reading) == (
        "Final model",
        "included",
        9,
        reading,
    )


def guarantee(epsilon, participations=1, reason=None):
    by = {"accountant": "rdp", "epsilon": epsilon, "reason": reason}
    return {"epsilon": epsilon, "participations": participations, "by_accountant": [by]}


def test_the_noise_guarantee_is_one_row_where_everybody_has_the_same():
    (row,) = noise_rows({"canary": guarantee("inf"), "client": guarantee("inf")})
    assert row.epsilon == "≤ ∞"
    canary, client = noise_rows({"canary": guarantee(2.0), "client": guarantee(None)})
    assert (canary.epsilon, client.epsilon) == ("≤ 2.00", "none known")


def test_accounting_rows_name_reasons():
    rows = accounting_rows(
        {"client": guarantee(None, None, "because"), "canary": guarantee(4.0, 3)}
    )
    assert [(row.party, row.participations, row.epsilon, row.reason) for row in rows] == [
        ("Real client", "random", "unknown", "because"),
        ("Included canary", "3 rounds", "4.00", None),
    ]
