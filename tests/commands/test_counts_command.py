"""fl-audit counts: the worked example of Zanella-Béguelin et al., section 3.2."""

import json

import pytest

from fl_audit.cli import main

COUNTS = ["counts", "--fn", "35", "--tp", "65", "--fp", "25", "--tn", "75", "--delta", "0.05"]


def test_prints_the_worked_example(capsys):
    assert main([*COUNTS, "--confidence", "0.95", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert list(printed) == ["clopper_pearson", "jeffreys", "bayes"]
    assert printed["clopper_pearson"] == pytest.approx([0.295, 1.489], abs=5e-4)
    assert printed["jeffreys"] == pytest.approx([0.321, 1.456], abs=5e-4)
    # Printed there as 1.268: their root finder stops 0.01 from the root.
    assert printed["bayes"] == pytest.approx([0.522, 1.2666], abs=5e-4)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--fn", "-1", "false_negatives"),
        ("--fn", "1.5", "--fn: must be a whole number, got '1.5'"),
        ("--delta", "1", "delta must be in [0, 1)"),
        ("--confidence", "90", "confidence must be in (0, 1)"),
    ],
)
def test_bad_input_is_one_line_and_status_2(option, value, message, capsys):
    assert main([*COUNTS, option, value]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert printed.err.count("\n") == 1


def test_a_class_without_counts_is_refused(capsys):
    assert main([*COUNTS, "--fn=0", "--tp=0"]) == 2
    assert "true_positives" in capsys.readouterr().err
