"""What commands print and write: JSON, lines, reports, verdicts, pages, progress, exit status."""

import argparse
import json
import shutil
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from fl_audit.errors import InputError, visible
from fl_audit.progress import bar, hint

if TYPE_CHECKING:
    from fl_audit.report import Report
    from fl_audit.verdict import Claim


def add_verbose(parser: argparse.ArgumentParser) -> None:
    """Adds the option that prints all estimates behind the answer."""
    parser.add_argument(
        "--verbose", action="store_true", help="print all estimates, in tables, behind the answer"
    )


def print_report(report: "Report", out: Path, behind: "Callable[[Report, int], list[str]]") -> None:
    """Prints the answer of a run's report, what stands behind it, and the path of its page.

    Args:
      report: The report of the run.
      out: The run's folder.
      behind: The function that makes the lines behind the answer, of a report and a width.
    """
    from fl_audit.formats.folders import RunFolder
    from fl_audit.report.headline import headline
    from fl_audit.report.terminal import answer_lines
    from fl_audit.verdict import Claim

    width = shutil.get_terminal_size((100, 24)).columns
    print_lines([*answer_lines(headline(report), width), *behind(report, width)])
    print_lines([f"report: {RunFolder(out).report_html}"])
    if (verdict := report.verdict) is not None:
        claim = Claim(verdict.claimed_epsilon, report.run.delta)
        print_lines(verdict_lines(claim, verdict.outcome, verdict.reason))


def in_brief(report: "Report", width: int) -> list[str]:
    """What ran and whether the checks passed, to be printed behind the answer."""
    from fl_audit.report.terminal import brief_lines

    del width
    return brief_lines(report)


def in_full(report: "Report", width: int) -> list[str]:
    """All estimates of a run, to be printed behind the answer."""
    from fl_audit.report import summary_lines

    return ["", *summary_lines(report, width)]


def verdict_lines(claim: "Claim", outcome: str, reason: str) -> list[str]:
    """The outcome of a verdict in one line, with the reason below it."""
    line = f"verdict: {outcome.upper()}, claimed epsilon {claim.epsilon:g} at delta {claim.delta:g}"
    width = max(min(shutil.get_terminal_size((100, 24)).columns, 100), 40)
    return ["", line, *(f"  {part}" for part in textwrap.wrap(f"{reason}.", width - 2))]


def arrival_lines(state: str, reason: str, fault: str | None) -> list[str]:
    """What became of the included canaries, wrapped to the terminal."""
    words = {
        "arrived": "canaries arrived" if fault is None else "canaries arrived, with a FAULT",
        "not_arrived": "canaries DID NOT ARRIVE as promised",
        "cannot_tell": "canaries cannot be seen to arrive",
    }
    return wrapped(f"{words[state]}: {reason}")


def wrapped(text: str) -> list[str]:
    """A text in lines as long as the terminal's."""
    width = max(min(shutil.get_terminal_size((100, 24)).columns, 100), 40)
    return textwrap.wrap(text, width, break_on_hyphens=False)


def print_lines(lines: Iterable[str]) -> None:
    """Prints lines, in which names of a stranger's files or canaries may stand.

    What a terminal would obey is printed as escapes, and each of these lines stays one.
    """
    print("\n".join(map(visible, lines)))


def print_json(value: dict[str, object]) -> None:
    """Prints one JSON object, whose infinities have to be words."""
    print(json.dumps(value, allow_nan=False))


def write_page(html: str, path: Path) -> None:
    """Writes a page, which appears whole.

    Raises:
      InputError: The file cannot be written.
    """
    from fl_audit.formats.text_files import write_text

    try:
        write_text(path, html)
    except OSError as error:
        raise InputError(f"--out {path}: cannot be written: {error.strerror}") from error


def scoring_progress(paths: list[Path]) -> Iterator[Path]:
    """The files of a log's aggregates, with a progress bar and a last line with their number."""
    yield from bar(paths, "scoring", "round")
    if paths:
        hint(f"scored {len(paths)} rounds")


EXIT_CONTRADICTED = 3
EXIT_NOT_CONSISTENT = 4


def add_require(parser: argparse.ArgumentParser) -> None:
    """Adds the option that demands more than a claim that is not contradicted."""
    parser.add_argument(
        "--require",
        choices=("consistent",),
        help="exit with status 4 where the claim is neither consistent nor contradicted",
    )


def check_required(required: str | None, *, is_claimed: bool, how: str) -> None:
    """Refuses to require a verdict where nothing is claimed.

    Args:
      required: What --require asks for; None for nothing.
      is_claimed: Whether there is a claim.
      how: How a claim is made, in words.

    Raises:
      InputError: A verdict is required without a claim.
    """
    if required is not None and not is_claimed:
        raise InputError(f"--require {required}: needs a claim; {how}")


def verdict_status(outcome: str | None, required: str | None = None) -> int:
    """The exit status: 3 for a contradicted claim, 4 for one that is not as required, else 0.

    Args:
      outcome: The outcome of the verdict; None without a claim.
      required: What --require asks for; None for nothing.
    """
    if outcome == "contradicted":
        return EXIT_CONTRADICTED
    return EXIT_NOT_CONSISTENT if required is not None and outcome != required else 0
