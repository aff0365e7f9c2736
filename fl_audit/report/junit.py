"""A report as JUnit XML, for CI systems: the claim, the canary check and mechanism checks as tests.

SARIF would not fit: it is about locations in source code. GitLab, Jenkins and Azure Pipelines
display JUnit XML, and so does GitHub with an action.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree as ET

from fl_audit.errors import visible
from fl_audit.report.checks import finding_words, title_of_check
from fl_audit.report.report import Report
from fl_audit.report.terminal import verdict_texts

Outcome = Literal["passed", "failure", "skipped"]


@dataclass(frozen=True)
class Case:
    """One JUnit test case, with outcome `skipped` if the audit could not decide."""

    name: str
    outcome: Outcome
    words: str


def cases(report: Report, required: Collection[str] = ()) -> Iterator[Case]:
    """A case for the claim, for the canary check, and for each mechanism check.

    `required` has the values of --require: with "consistent", a stated claim fails unless it is
    consistent; with "checks", a mechanism check that could not be made fails.
    """
    yield _claim(report, required)
    if report.canary_check is not None:
        outcome = _OUTCOMES[report.canary_check.state]
        yield Case("canary check", outcome, report.canary_check.reason)
    for check in () if report.checks is None else report.checks.results:
        outcome = _CHECKED[check.passed]
        if check.passed is None and "checks" in required:
            outcome = "failure"
        words = f"{check.meaning} Found: {finding_words(check)}."
        yield Case(f"mechanism: {title_of_check(check.name)}", outcome, words)


_OUTCOMES: dict[str, Outcome] = {
    "arrived": "passed",
    "not_arrived": "failure",
    "cannot_tell": "skipped",
}


_CHECKED: dict[bool | None, Outcome] = {True: "passed", False: "failure", None: "skipped"}


def _claim(report: Report, required: Collection[str]) -> Case:
    verdict = report.verdict
    if verdict is None:
        return Case("claim", "skipped", "No ε is claimed.")
    outcome, sentences = verdict_texts(verdict)
    words = f"{outcome}: {' '.join(sentences)}"
    fails = verdict.outcome == "contradicted" or (
        "consistent" in required and verdict.outcome != "consistent"
    )
    if fails and verdict.claim.is_stated:
        return Case("claim", "failure", words)
    return Case(
        "claim" if verdict.claim.is_stated else "configured noise",
        "passed" if verdict.outcome == "consistent" else "skipped",
        words,
    )


def junit_xml(report: Report, required: Collection[str] = ()) -> str:
    """The cases of a report as one test suite."""
    written = list(cases(report, required))
    ended = Counter(case.outcome for case in written)
    root = ET.Element("testsuites")
    suite = ET.SubElement(
        root,
        "testsuite",
        name="fl-audit",
        tests=str(len(written)),
        failures=str(ended["failure"]),
        errors="0",
        skipped=str(ended["skipped"]),
    )
    for case in written:
        words = visible(case.words)
        test = ET.SubElement(suite, "testcase", classname="fl-audit", name=visible(case.name))
        if case.outcome == "passed":
            ET.SubElement(test, "system-out").text = words
        else:
            ET.SubElement(test, case.outcome, message=words).text = words
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
