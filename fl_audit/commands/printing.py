"""Output of commands: JSON, lines, reports, verdicts, pages, progress."""

import argparse
import json
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from fl_audit.commands.parser import output_file
from fl_audit.errors import InputError, visible
from fl_audit.progress import bar, hint

if TYPE_CHECKING:
    from fl_audit.report import Report


def add_verbose(parser: argparse.ArgumentParser) -> None:
    """Adds the option that prints all estimates after the answer."""
    parser.add_argument(
        "--verbose", action="store_true", help="print all estimates, in tables, after the answer"
    )


def print_report(report: "Report", page: Path | None = None, is_verbose: bool = False) -> None:
    """Prints the answer, all estimates or a summary, the path of the page, and the verdict."""
    from fl_audit.report.terminal import brief_lines, leading_lines, summary_lines, verdict_lines

    width = shutil.get_terminal_size((100, 24)).columns
    details = ["", *summary_lines(report, width)] if is_verbose else brief_lines(report)
    print_lines([*leading_lines(report, width), *details])
    print_lines([] if page is None else [f"report: {page}"])
    print_lines(verdict_lines(report.verdict))


def print_lines(lines: Iterable[str]) -> None:
    """Prints lines with control characters as escapes: they may hold names from untrusted files."""
    for line in lines:
        print(visible(line))


def print_path(what: str, path: Path, *, is_json: bool = False) -> None:
    """Prints the path of a written file; to standard error if standard output is JSON."""
    print(visible(f"{what}: {path}"), file=sys.stderr if is_json else sys.stdout)


def print_json(value: dict[str, object]) -> None:
    """Prints one JSON object, whose infinities are already strings."""
    print(json.dumps(value, allow_nan=False))


def write_page(html: str, path: Path, option: str = "--out") -> None:
    """Writes a page or a table, atomically."""
    from fl_audit.formats.text_files import write_text

    try:
        write_text(path, html)
    except OSError as error:
        raise InputError(f"{option} {path}: cannot be written: {error.strerror}") from error


def scoring_progress(paths: list[Path]) -> Iterator[Path]:
    """The files of a log's aggregates, with a progress bar, and a hint at the end on how many."""
    yield from bar(paths, "scoring", "round")
    if paths:
        hint(f"scored {len(paths)} rounds")


def add_junit(parser: argparse.ArgumentParser) -> None:
    """Adds the option that writes a report for CI systems."""
    parser.add_argument(
        "--junit",
        metavar="FILE.xml",
        type=output_file,
        help="write the verdict and the checks as JUnit XML, which CI systems show as tests",
    )


def add_commitment(
    parser: argparse.ArgumentParser,
    meaning: str = "the commitment that `fl-audit commit` wrote before the run",
) -> None:
    """Adds the option that names the commitment of a run."""
    parser.add_argument("--commitment", metavar="FILE", type=Path, help=meaning)


def write_junit(report: "Report", path: Path | None, required: Collection[str]) -> None:
    """Writes the verdict and the checks for a CI system, if `path` is given."""
    if path is not None:
        from fl_audit.report.junit import junit_xml

        write_page(junit_xml(report, required), path, "--junit")
