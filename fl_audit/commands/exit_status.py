"""The exit statuses of the program, and the requirements on a report that set them."""

import argparse
from collections.abc import Collection
from typing import TYPE_CHECKING

from fl_audit.errors import InputError

if TYPE_CHECKING:
    from fl_audit.report import Report

BROKEN = 1
"""Of `verify` and `release`: something in the folder does not fit."""
RUN_FAILED = 1
"""Of `sweep`: a run failed."""
BAD_INPUT = 2
CONTRADICTED = 3
NOT_AS_REQUIRED = 4
WORSE = 5
"""Of `compare --require no-worse`: the new run leaks significantly more."""
PARTLY = 5
"""Of `verify`: files could not be recomputed, so that only the chain of digests covers them."""
BROKEN_PIPE = 141
"""128 + SIGPIPE."""


def add_require(parser: argparse.ArgumentParser) -> None:
    """Adds the option that requires a consistent claim, or passed checks."""
    parser.add_argument(
        "--require",
        choices=("consistent", "checks"),
        action="append",
        default=[],
        help="consistent: exit with status 4 if the claim is neither consistent nor contradicted; "
        "checks: if a mechanism check failed or could not be made. May be given twice. With a "
        "claim, a failed check sets status 4 even without this option",
    )


def check_required(required: Collection[str], *, is_claimed: bool, how: str) -> None:
    """Raises InputError if --require needs a claim that is missing; `how` says how to state one."""
    if "consistent" in required and not is_claimed:
        raise InputError(f"--require consistent: needs a claim; {how}")


def exit_status_of(report: "Report", required: Collection[str] = ()) -> int:
    """The exit status: 3 if the claim is contradicted, 4 if a requirement is not met, else 0.

    With a stated claim, a failed mechanism check gives 4 too; without a claim, the verdict does not
    count.
    """
    verdict, checks = report.verdict, report.checks
    is_claimed = verdict is not None and verdict.claim.is_stated
    outcome = verdict.outcome if verdict is not None and is_claimed else None
    if outcome == "contradicted":
        return CONTRADICTED
    has_failed = checks is not None and checks.passed is False
    is_complete = checks is not None and checks.is_complete
    lacks = (
        has_failed and is_claimed,
        "checks" in required and (has_failed or not is_complete),
        "consistent" in required and outcome != "consistent",
    )
    return NOT_AS_REQUIRED if any(lacks) else 0
