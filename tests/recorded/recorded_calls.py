"""Calls of the command line, recorded once, and what has changed since.

Only `fl_audit.cli.main` is imported, so that the same recording judges any version of the package:
a call runs in this process, in a scratch copy of `inputs/`, and gives its exit status and the JSON
that it printed, or its line of bad input.
"""

import contextlib
import hashlib
import io
import json
import math
import re
import shlex
import shutil
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seeded_noise import seeded_noise

HERE = Path(__file__).parent
INPUTS = HERE / "inputs"
EXPECTED = HERE / "expected"
TEXTS = EXPECTED / "texts.json"

BAD_INPUT = 2

RELATIVE, RELATIVE_AFTER_TRAINING = 1e-6, 1e-5
"""The largest relative difference of a number on another processor.

Canaries are of float32, with 7 digits, and what is fitted to scores has as many; a run trains in
float32 itself, and its scores have a digit less.
"""

PLACE_OF_A_MAXIMUM = 1e-4
"""The same of a threshold: the place of a maximum that is known to 1e-9 is known to its root."""

ABSOLUTE, ABSOLUTE_AFTER_TRAINING = 1e-9, 1e-7
"""The same of numbers that are nearly 0, such as a mean of scores."""

_NO_FUNCTION_OF_THE_INPUT = re.compile(
    r"(.*_)?seconds|finished|versions|fl_audit_version|model_sha256"
)
"""Keys whose values say when, where and by what a call was made; bits of a model too."""

_LEFT_OUT = "not compared"

_DIGITS = 12
"""Of numbers: far more than are compared."""

_LONGEST_TEXT = 40
"""Longer ones are written once for all calls."""

Record = dict[str, Any]
"""`status`, and `output` (the JSON object) or `error` (the line of bad input); or `crash`."""


@dataclass(frozen=True)
class Call:
    """A call of the command line.

    Attributes:
      name: of the call, and of its file in `expected/`.
      arguments: the words behind `fl-audit`.
      trains: whether TensorFlow Federated is imported, or what it has trained is read.
      needs: names of the calls that make what this one reads.
    """

    name: str
    arguments: tuple[str, ...]
    trains: bool
    needs: tuple[str, ...]

    @property
    def expected(self) -> Path:
        """What the call gave when it was recorded."""
        return EXPECTED / f"{self.name}.json"


def _read_calls() -> dict[str, Call]:
    table = tomllib.loads((HERE / "calls.toml").read_text())["calls"]
    return {
        name: Call(
            name,
            (*shlex.split(entry["words"], posix=False), "--json"),
            entry.get("trains", False),
            tuple(entry.get("needs", ())),
        )
        for name, entry in table.items()
    }


CALLS = _read_calls()


@dataclass
class Scratch:
    """A folder in which calls run, each once.

    Attributes:
      folder: a copy of `inputs/`, and what calls have written.
      records: what calls have given so far, by name.
    """

    folder: Path
    records: dict[str, Record] = field(default_factory=dict)

    @classmethod
    def create(cls, parent: Path) -> "Scratch":
        """A new one inside a folder."""
        return cls(Path(shutil.copytree(INPUTS, parent.resolve() / "scratch")))

    def record(self, call: Call) -> Record:
        """What a call gives, after those that it needs."""
        for name in call.needs:
            self.record(CALLS[name])
        if call.name not in self.records:
            noise = seeded_noise() if call.trains else contextlib.nullcontext()
            with contextlib.chdir(self.folder), noise:
                self.records[call.name] = self._run(call)
        return self.records[call.name]

    def _run(self, call: Call) -> Record:
        from fl_audit.cli import main

        out, error = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            try:
                status = main(call.arguments)
            except (Exception, SystemExit) as crash:
                return {"crash": f"{type(crash).__name__}: {crash}"}
        if status == BAD_INPUT:
            said = [line for line in error.getvalue().splitlines() if line.startswith("fl-audit:")]
            return {"status": status, "printed": out.getvalue(), "error": self._relative(said)}
        output = json.loads(self._relative(out.getvalue()))
        return {"status": status, "output": _normalised(self._without_reports(output))}

    def _relative(self, text: Any) -> Any:
        if isinstance(text, list):
            return [self._relative(line) for line in text]
        return text.replace(str(self.folder), "SCRATCH")

    def _without_reports(self, output: dict[str, Any]) -> dict[str, Any]:
        """Of a comparison: each run's report only said to be that of its folder, if it is."""
        for run in output.get("runs", ()):
            report = (self.folder / run["folder"] / "report.json").read_text()
            if run["report"] == json.loads(self._relative(report)):
                run["report"] = f"{run['folder']}/report.json"
        return output


def _normalised(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: _LEFT_OUT if _NO_FUNCTION_OF_THE_INPUT.fullmatch(key) else _normalised(part)
            for key, part in value.items()
        }
    if isinstance(value, list):
        return [_normalised(part) for part in value]
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value


def write_expected(call: Call, record: Record) -> None:
    """Writes what a call gave; long texts, which repeat, once for all calls into `texts.json`."""
    texts = _read_texts()
    _write(call.expected, _shortened(record, texts))
    _write(TEXTS, dict(sorted(texts.items())))


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value, indent=0, separators=(",", ":"), ensure_ascii=False) + "\n")


def read_expected(call: Call) -> Record:
    """What a call gave when it was recorded."""
    texts = _read_texts()
    record: Record = _each_text(json.loads(call.expected.read_text()), lambda t: texts.get(t, t))
    return record


def _read_texts() -> dict[str, str]:
    texts: dict[str, str] = json.loads(TEXTS.read_text()) if TEXTS.exists() else {}
    return texts


def _shortened(record: Record, texts: dict[str, str]) -> Any:
    """The record with names for its long texts, which are added to `texts`."""

    def name_of(text: str) -> str:
        if len(text) <= _LONGEST_TEXT:
            return text
        name = f"text {hashlib.sha256(text.encode()).hexdigest()[:10]}"
        texts[name] = text
        return name

    return _each_text(record, name_of)


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {key: _each_text(part, change) for key, part in value.items()}
    if isinstance(value, list):
        return [_each_text(part, change) for part in value]
    return change(value) if isinstance(value, str) else value


def differences(call: Call, record: Record) -> list[str]:
    """What a call gives otherwise than it did: a line each, `call: path: before -> after`.

    Keys, strings, whole numbers, and which numbers are there, must be the same; others may differ
    by rounding.
    """
    before = read_expected(call)
    after = json.loads(json.dumps(record))
    relative = RELATIVE_AFTER_TRAINING if call.trains else RELATIVE
    absolute = ABSOLUTE_AFTER_TRAINING if call.trains else ABSOLUTE
    return [
        f"{call.name}: {path}: {_shown(old)} -> {_shown(new)}"
        for path, old, new in _pairs(before, after, "$")
        if not _same(old, new, max(relative, _least_tolerance(path)), absolute)
    ]


def _least_tolerance(path: str) -> float:
    return PLACE_OF_A_MAXIMUM if path.endswith(".threshold") else 0.0


class _Nothing:
    """Stands for what is not there."""


def _pairs(before: Any, after: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """The leaves of two JSON values, and where they lie; what one of them lacks is `_Nothing`."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys([*before, *after]):
            place = f"{path}.{key}"
            yield from _pairs(before.get(key, _Nothing), after.get(key, _Nothing), place)
    elif isinstance(before, list) and isinstance(after, list):
        for index in range(max(len(before), len(after))):
            old = before[index] if index < len(before) else _Nothing
            new = after[index] if index < len(after) else _Nothing
            yield from _pairs(old, new, f"{path}[{index}]")
    else:
        yield path, before, after


def _same(before: Any, after: Any, relative: float, absolute: float) -> bool:
    if type(before) is float and type(after) is float:
        return math.isclose(before, after, rel_tol=relative, abs_tol=absolute)
    return type(before) is type(after) and bool(before == after)


def _shown(value: Any) -> str:
    if value is _Nothing:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}…"
