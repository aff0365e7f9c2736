"""A report in a notebook, and as rows."""


def test_rows_are_all_estimates_of_all_statistics(reported):
    report = reported.report
    rows = report.records()
    assert {row["statistic"] for row in rows} == set(report.statistics)
    assert len(rows) == sum(len(made.estimates) for made in report.statistics.values())
    assert {row["delta"] for row in rows} == {report.delta}


def test_a_notebook_shows_the_answer(reported):
    html = reported.report._repr_html_()
    assert html.startswith("<pre>guaranteed")
    assert "proven" in html
    assert "checks" in html
