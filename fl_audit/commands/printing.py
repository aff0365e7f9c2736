"""What commands print and write: JSON, lines, reports, verdicts, pages, progress, exit status."""

import argparse
import json
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from fl_audit.errors import InputError, visible
from fl_audit.progress import bar, hint

if TYPE_CHECKING:
    from fl_audit.report import Report


def add_verbose(parser: argparse.ArgumentParser) -> None:
    """Adds the option that prints all estimates after the answer."""
    parser.add_argument(
        "--verbose", action="store_true", help="print all estimates, in tables, after the answer"
    )


def print_report(
    report: "Report", behind: "Callable[[Report, int], list[str]]", page: Path | None = None
) -> None:
    """Prints the answer of a report, what stands behind it, the path of its page and the verdict.

    Args:
      report: The report.
      behind: The function that makes the lines after the answer, of a report and a width.
      page: The page of a run; None where there is none yet.
    """
    from fl_audit.report.headline import headline
    from fl_audit.report.terminal import answer_lines, verdict_lines

    width = shutil.get_terminal_size((100, 24)).columns
    print_lines([*answer_lines(headline(report), width), *behind(report, width)])
    print_lines([] if page is None else [f"report: {page}"])
    print_lines(verdict_lines(report.verdict))


def in_brief(report: "Report", width: int) -> list[str]:
    """What ran and whether the checks passed, to be printed after the answer."""
    from fl_audit.report.terminal import brief_lines

    del width
    return brief_lines(report)


def in_full(report: "Report", width: int) -> list[str]:
    """All estimates, to be printed after the answer."""
    from fl_audit.report import summary_lines

    return ["", *summary_lines(report, width)]


def print_lines(lines: Iterable[str]) -> None:
    """Prints lines, in which names of a stranger's files or canaries may stand.

    What a terminal would obey is printed as escapes, and each of these lines stays one.
    """
    for line in lines:
        print(visible(line))


def print_json(value: dict[str, object]) -> None:
    """Prints one JSON object, whose infinities have to be words."""
    print(json.dumps(value, allow_nan=False))


def write_page(html: str, path: Path, option: str = "--out") -> None:
    """Writes a page or a table, which appears whole.

    Args:
      html: The text.
      path: The file.
      option: The option that names it, for the message of an error.

    Raises:
      InputError: The file cannot be written.
    """
    from fl_audit.formats.text_files import write_text

    try:
        write_text(path, html)
    except OSError as error:
        raise InputError(f"{option} {path}: cannot be written: {error.strerror}") from error


def scoring_progress(paths: list[Path]) -> Iterator[Path]:
    """The files of a log's aggregates, with a progress bar and a last line with their number."""
    yield from bar(paths, "scoring", "round")
    if paths:
        hint(f"scored {len(paths)} rounds")


EXIT_CONTRADICTED = 3
EXIT_NOT_AS_REQUIRED = 4


def add_require(parser: argparse.ArgumentParser) -> None:
    """Adds the option that demands more than a claim that is not contradicted."""
    parser.add_argument(
        "--require",
        choices=("consistent", "checks"),
        action="append",
        default=[],
        help="exit with status 4 if the claim is neither consistent nor contradicted "
        "(consistent), or if a mechanism check failed or could not be made (checks); may be given "
        "twice. With a claim, a check that failed sets status 4 by itself",
    )


def check_required(required: Collection[str], *, is_claimed: bool, how: str) -> None:
    """Refuses to require a verdict where nothing is claimed.

    Args:
      required: What --require asks for.
      is_claimed: Whether there is a claim.
      how: How a claim is made, in words.

    Raises:
      InputError: A verdict is required without a claim.
    """
    if "consistent" in required and not is_claimed:
        raise InputError(f"--require consistent: needs a claim; {how}")


def add_junit(parser: argparse.ArgumentParser) -> None:
    """Adds the option that writes what a CI system shows."""
    parser.add_argument(
        "--junit",
        metavar="FILE.xml",
        type=Path,
        help="write the verdict and the checks as JUnit XML, which CI systems show as tests",
    )


def write_junit(report: "Report", path: Path | None, required: Collection[str]) -> None:
    """Writes the verdict and the checks for a CI system.

    Args:
      report: The report.
      path: The file; None for nothing.
      required: What --require asks for.

    Raises:
      InputError: The file cannot be written.
    """
    if path is not None:
        from fl_audit.report.junit import junit_xml

        write_page(junit_xml(report, required), path, "--junit")


def exit_status(report: "Report", required: Collection[str] = ()) -> int:
    """The exit status: 3 for a contradicted claim, 4 for what is not as required, else 0.

    Beside a claim, a mechanism that is not as configured is as little as required. What nobody
    claims sets no status.

    Args:
      report: The report.
      required: What --require asks for.
    """
    verdict, checks = report.verdict, report.checks
    is_claimed = verdict is not None and verdict.claim.is_stated
    outcome = verdict.outcome if verdict is not None and is_claimed else None
    if outcome == "contradicted":
        return EXIT_CONTRADICTED
    has_failed = checks is not None and checks.passed is False
    is_complete = checks is not None and checks.is_complete
    lacks = (
        has_failed and is_claimed,
        "checks" in required and (has_failed or not is_complete),
        "consistent" in required and outcome != "consistent",
    )
    return EXIT_NOT_AS_REQUIRED if any(lacks) else 0
