"""What a replay expected and what it measured, in words and numbers, and the file of it."""

import dataclasses
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from fl_audit.errors import InputError
from fl_audit.formats.text_files import read_foreign, write_text
from fl_audit.mechanism_checks.checks import FALSE_ALARM


@dataclass(frozen=True)
class Finding:
    """One comparison of a replay, or one check of cohorts.

    Attributes:
      name: The name of the comparison, see docs/replay.md.
      expected: What the mechanism promises, in words.
      measured: What was found, in words.
      log_p: The logarithm of a bound on the probability that a correct mechanism looks as bad; 0 or
        -inf where no chance is involved.
      variable: The variable of the model, from 1, that is farthest from the promise; None for the
        whole model.
      ratio: The measured over the promised length there, of a client the most that was measured.
      told: Whether the question could be answered; what could not be has not failed.
      detectable_ratio: Of noise, the largest share of the promised length that would have been seen
        to be too short with a probability of 95 %; None for other findings.
    """

    name: str
    expected: str
    measured: str
    log_p: float
    variable: int | None
    ratio: float
    told: bool = True
    detectable_ratio: float | None = None

    @property
    def passed(self) -> bool:
        """Whether a correct mechanism may look like this."""
        return self.log_p >= math.log(FALSE_ALARM)

    @property
    def outcome(self) -> str:
        """`held`, `failed` or `could not tell`."""
        if not self.passed:
            return "failed"
        return "held" if self.told else "could not tell"

    def __str__(self) -> str:
        """The finding as a line for people."""
        outcome = self.outcome if self.passed else "FAILED"
        return f"{outcome} {self.name}: expected that {self.expected}; measured: {self.measured}"


def failed(name: str, expected: str, measured: str) -> Finding:
    """A finding that a correct mechanism can never cause."""
    return Finding(name, expected, measured, -math.inf, None, math.inf)


def untold(name: str, expected: str, why: str) -> Finding:
    """A finding on what could not be looked at."""
    return Finding(name, expected, why, 0.0, None, 1.0, told=False)


def write_replay(path: Path, findings: Sequence[Finding]) -> None:
    """Writes the findings as JSON, `null` for what is infinite."""
    write_text(path, json.dumps([_to_json(finding) for finding in findings], indent=1) + "\n")


def read_replay(path: Path) -> tuple[Finding, ...]:
    """Reads the findings; none where there was no replay.

    Raises:
      InputError: The file is damaged.
    """
    try:
        rows = msgspec.json.decode(read_foreign(path), type=list[dict[str, Any]])
        return tuple(msgspec.convert(_from_json(row), Finding) for row in rows)
    except FileNotFoundError:
        return ()
    except (OSError, msgspec.MsgspecError, TypeError) as error:
        raise InputError(f"{path}: is not the record of a replay: {error}") from error


def _to_json(finding: Finding) -> dict[str, Any]:
    fields = dataclasses.asdict(finding)
    return {**fields, **{key: _finite(fields[key]) for key in ("log_p", "ratio")}}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _from_json(row: dict[str, Any]) -> dict[str, Any]:
    infinite = {"log_p": -math.inf, "ratio": math.inf}
    return {**row, **{key: value for key, value in infinite.items() if row.get(key) is None}}
