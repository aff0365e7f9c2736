"""Rows of the report's tables."""

import pytest

from fl_audit.report.tables import accounting_rows, method_rows, noise_rows, normality_rows

NAMES = ("final", "final_minus_initial", "max", "sum")


def estimate(method, kind, epsilon, guarantee="g", **ends):
    return {
        "method": method,
        "kind": kind,
        "epsilon": epsilon,
        "lower": ends.get("lower"),
        "upper": ends.get("upper"),
        "details": {"guarantee": guarantee, "assumes": "a.", "source": "s"},
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
    rows = method_rows(
        statistics(
            final=[estimate("m", "lower_bound", 0.5), estimate("e", "estimate", "inf")],
            max=[estimate("m", "lower_bound", "inf")],
            sum=[estimate("m", "lower_bound", 12.3456, guarantee="other")],
        )
    )
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
    (row,) = method_rows(statistics(**dict.fromkeys(NAMES, shared)))
    assert row.epsilons == ("0.500 … ∞",) * 4
    assert [note.label for note in row.notes] == ["Guarantee", "Assumes", "Source"]


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
    assert (canary.epsilon, client.epsilon) == ("≤ 2.00", "unknown")


def test_accounting_rows_name_reasons():
    rows = accounting_rows(
        {"client": guarantee(None, None, "because"), "canary": guarantee(4.0, 3)}
    )
    assert [(row.party, row.participations, row.epsilon, row.reason) for row in rows] == [
        ("Real client", "random", "unknown", "because"),
        ("Included canary", "3 rounds", "4.00", None),
    ]
