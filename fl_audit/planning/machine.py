"""The hours of a run on a machine that `benchmarks/gpu.py` measured, from the table it printed."""

import math
import re
from dataclasses import dataclass
from pathlib import Path

from fl_audit.errors import InputError
from fl_audit.planning.planned_run import PlannedRun

_LARGEST_TABLE = 100_000
"""Bytes; a table has about two thousand."""

_DEVICE = re.compile(r"^\d+ x (.+), of which one is used$", re.M)
_CLIENT = re.compile(
    r"^rounds of LSTM clients, d = ([\d,]{1,15}), (\d{1,6}) batches of (\d{1,6});", re.M
)
_RATE = re.compile(r"^\d+ clients, \d+ at once +([\d.]{1,12}(?:e[+-]\d{2})?) ", re.M)
_SCORING = re.compile(
    r"^audited round.* scoring of [\d,]+ canaries on the (?:host|device) ([\d.]{1,9}) (s|ms|us)$",
    re.M,
)
_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}

_ALIKE = 0.1
"""The largest distance of a model's d from the measured one, as a share of that."""


@dataclass(frozen=True)
class Machine:
    """What was measured on a machine.

    Attributes:
      clients_per_second: The largest rate over block sizes, products in float32.
      scoring_seconds: The seconds for the cosines of a round with a pool of `hadamard` canaries.
    """

    device: str
    dim: int
    batches: int
    batch_size: int
    clients_per_second: float
    scoring_seconds: float

    def hours(self, run: PlannedRun, runs: int = 1, machines: int = 1) -> "MachineHours":
        """The hours of several runs whose clients are like the measured ones."""
        if abs(run.task.dim - self.dim) > _ALIKE * self.dim:
            raise InputError(
                f"--machine: its table is of d = {self.dim:,}, the config's model has "
                f"d = {run.task.dim:,}; must differ by at most {_ALIKE:.0%}"
            )
        if run.pool.family != "hadamard":
            raise InputError(
                f"--machine: its table has no time for canaries.family {run.pool.family!r}; must "
                "be 'hadamard'"
            )
        training = run.schedule.expected_clients / self.clients_per_second
        seconds = run.num_rounds * (training + self.scoring_seconds)
        return MachineHours(self, training, runs, machines, seconds / 3600)


@dataclass(frozen=True)
class MachineHours:
    """The predicted time of runs.

    Attributes:
      machines: The number of such machines; each takes the next run when it has finished one.
      hours_of_one: The hours of one run, without compilation and reading of data.
    """

    JSON_COMPUTED = ("hours",)

    machine: Machine
    training_seconds: float
    runs: int
    machines: int
    hours_of_one: float

    @property
    def hours(self) -> float:
        """The hours until all runs have ended."""
        return math.ceil(self.runs / self.machines) * self.hours_of_one


def read_machine(path: Path) -> Machine:
    """Reads the table that `benchmarks/gpu.py` printed."""
    try:
        with path.open("rb") as file:
            text = file.read(_LARGEST_TABLE + 1).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--machine {path}: cannot be read as text: {error}") from None
    if len(text) > _LARGEST_TABLE:
        raise InputError(f"--machine {path}: too large for a table of benchmarks/gpu.py")
    device, client, scoring = (p.search(text) for p in (_DEVICE, _CLIENT, _SCORING))
    if device is None or client is None:
        raise InputError(f"--machine {path}: must be what `python benchmarks/gpu.py` printed")
    dim, batches, batch_size = (int(part.replace(",", "")) for part in client.groups())
    rates = [_number(rate) for rate in _RATE.findall(text)]
    if not max(rates, default=0.0) > 0:
        raise InputError(f"--machine {path}: has no row with clients a second above 0")
    if scoring is None:
        raise InputError(f"--machine {path}: has no time of scoring in 'audited round'")
    seconds = _number(scoring[1]) * _UNITS[scoring[2]]
    return Machine(device[1], dim, batches, batch_size, max(rates), seconds)


def _number(text: str) -> float:
    """A printed number; 0 where it is none, such as `1.2.3`."""
    try:
        return float(text)
    except ValueError:
        return 0.0


def machine_lines(hours: MachineHours) -> list[str]:
    """What is predicted, and of what, as lines for a terminal."""
    from fl_audit.number_words import count, duration, significant

    machine = hours.machine
    lines = [
        "",
        f"On {machine.device}, as measured by benchmarks/gpu.py",
        f"  {duration(3600 * hours.hours_of_one)}: {significant(hours.training_seconds, 2)} s of "
        f"training a round at {significant(machine.clients_per_second, 3)} clients a second, "
        f"{significant(machine.scoring_seconds, 2)} s of scoring",
        f"  if a client has {machine.batches} batches of {machine.batch_size} "
        "sentences; without compilation and reading of data",
    ]
    if (hours.runs, hours.machines) != (1, 1):
        together = duration(3600 * hours.hours)
        runs = f"{count(hours.runs, 'such run')} on {count(hours.machines, 'such machine')}"
        lines.append(f"  {together} for {runs}")
    return lines
