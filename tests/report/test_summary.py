"""The summary for the terminal."""

import dataclasses

from fl_audit.report import summary_lines, write_report
from fl_audit.report.tables import group_rows

STATISTICS = ("final", "final_minus_initial", "max", "sum")


def test_summary_is_an_aligned_table_and_the_analytical_epsilon(run_folder, change_record):
    change_record(noise_multiplier=0.0, sum_noise_multiplier=0.0, count_noise_stddev=0.0)
    report = write_report(run_folder)
    lines = summary_lines(report)
    start = next(i for i, line in enumerate(lines) if "final_minus_initial" in line)
    table = lines[start : lines.index("", start)]
    rows = [line for line in table[1:] if line.startswith("  ")]
    assert lines[start - 1].split() == [
        *("threat", "model"),
        *("final", "final_and_initial", "all_iterates"),
    ]
    assert [line.split()[0] for line in rows] == [
        row.method for group in group_rows(report.statistics) for row in group.rows
    ]
    assert len({len(line) for line in [table[0], *rows]}) == 1
    assert table[0].split() == ["statistic", *STATISTICS]
    assert table[1] == "lower bounds that hold"
    assert any("94.3 %" in line and "held-out images" in line for line in lines)
    assert any(line.startswith("analytical epsilon  ∞") for line in lines)


def test_summary_gives_three_digits(reported):
    report = reported.report
    estimate = report.statistics["final"].estimates[0]
    row = next(line for line in summary_lines(report) if line.startswith("  gaussian_fit"))
    assert row.split()[:2] == ["gaussian_fit", f"{estimate.epsilon:.2f}"]


def test_a_run_without_canaries_has_no_table(reported):
    without = dataclasses.replace(reported.report, statistics={})
    assert not any("threshold" in line for line in summary_lines(without))
