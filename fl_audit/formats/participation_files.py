"""Files on participation: canaries.csv, participation.json, and the schedule's secret."""

import dataclasses
import json
import math
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fl_audit.accounting.sampling import Sampling
from fl_audit.array_types import IndexArray
from fl_audit.errors import InputError, nearest
from fl_audit.formats.text_files import (
    OWNER_ALONE,
    read_csv,
    read_flag,
    read_foreign,
    read_json,
    reading,
    write_text,
)

# canaries.csv: inclusion and rounds of the pool.


_MOST_DIGITS = 10
"""The largest number of digits of a round, far within 64 bits."""


def canaries_text(
    included: Iterable[bool], rounds: Iterable[Iterable[int]], arms: Sequence[str] = ()
) -> str:
    """The file's text, with the columns `canary_id,included,rounds` and a row per canary.

    Rounds, from 0 here, count from 1 in the file and are separated by blanks; an excluded canary
    has the rounds in which it would participate. `arms` add a column `arm`.
    """
    lines = [
        f"{canary},{int(is_in)},{' '.join(str(index + 1) for index in own)}"
        for canary, (is_in, own) in enumerate(zip(included, rounds, strict=True))
    ]
    header = "canary_id,included,rounds"
    if arms:
        header += ",arm"
        lines = [f"{line},{arm}" for line, arm in zip(lines, arms, strict=True)]
    return "\n".join([header, *lines]) + "\n"


@dataclass(frozen=True, eq=False)
class CanaryRow:
    """A row of the file; rounds, from 0, are None, and the arm is empty, without the column."""

    included: bool
    rounds: IndexArray | None
    arm: str = ""


def read_canaries(path: Path) -> dict[str, CanaryRow]:
    """The rows of the file by canary."""
    canaries: dict[str, CanaryRow] = {}
    rows = read_csv(path, ("canary_id", "included"), optional=("rounds", "arm"))
    for number, row in enumerate(rows, start=1):
        name = row["canary_id"]
        if name in canaries:
            raise InputError(f"{path}, row {number}: canary_id {name!r} is there twice")
        if (included := read_flag(row["included"])) is None:
            raise InputError(
                f"{path}, row {number}: included must be 0 or 1, got {row['included']!r}"
            )
        rounds = _rounds(path, name, row["rounds"]) if "rounds" in row else None
        canaries[name] = CanaryRow(included, rounds, row.get("arm", ""))
    return canaries


def check_scored(path: Path, flags: Mapping[str, bool], listed: Mapping[str, CanaryRow]) -> None:
    """Refuses a score file whose canaries or inclusion differ from canaries.csv."""
    if flags != {name: canary.included for name, canary in listed.items()}:
        raise InputError(f"{path}: must score exactly the canaries of canaries.csv, same inclusion")


def _rounds(path: Path, canary: str, text: str) -> IndexArray:
    """Reads a canary's rounds, which count from 1 in the file, as rounds from 0."""
    numbers = text.split()
    if not all(map(_is_round, numbers)):
        raise InputError(
            f"{path}, canary_id {canary!r}: rounds must be whole numbers from 1 on, separated by "
            f"blanks, got {text[:60]!r}"
        )
    return np.array([int(number) - 1 for number in numbers], dtype=np.int64)


def _is_round(number: str) -> bool:
    is_short = number.isascii() and number.isdigit() and len(number) <= _MOST_DIGITS
    return is_short and int(number) > 0


# participation.json: how clients may participate in a log's training, and what a claim relies on.


SAMPLING_OF_LOG: Mapping[str, type[Sampling]] = {
    kind.log_name: kind for kind in Sampling.kinds() if kind.log_name
}
"""How a round samples its clients, by name; with "none" rounds are fixed beforehand."""

SAMPLING_NAMES = ("none", *SAMPLING_OF_LOG)

_MAY_LACK = ("poisson", "fixed_size")
"""Samplings whose keys may be missing in a log."""

_WRITTEN_IF_SET = (
    "rounds",
    "separation",
    "members",
    "largest_round",
    "canaries",
    "upload_noise_multiplier",
)


@dataclass(frozen=True)
class Participation:
    """How often, and with what weight, a client may participate in a training.

    Attributes:
      sampling: How the clients of a round are drawn.
      probability: The probability that a client is drawn into a round, in (0, 1]; None if unknown
        or without sampling.
      client_rounds: The largest number of rounds of a client; None if not known.
      client_weight: The largest weight of a client, in units of a canary's; None if not known.
      claim_counts_on_sampling: Whether a claim about this training relies on sampling, so that it
        does not cover an attacker who knows the rounds; by default if clients are sampled.
      claim_covers_uploads: Whether a claim about this training covers an attacker who sees single
        uploads, as under local differential privacy.
      rounds: The number of rounds of training; None for the logged rounds.
      separation: The number of groups that take turns, or the least distance of two rounds of a
        client under "b_min_sep"; None without either.
      members: The number of clients and canaries from which a round samples; None if not known.
      largest_round: The size to which "truncated_poisson" truncates a round; None otherwise.
      canaries: Whether canaries were sampled like clients, or placed; None to judge by their
        rounds.
      upload_noise_multiplier: The standard deviation of the noise on a coordinate of an upload, in
        clip norms, if clients add it; None if not known.

    Raises:
      InputError: A value is of the wrong type or out of range.
    """

    sampling: str
    probability: float | None = None
    client_rounds: int | None = None
    client_weight: float | None = None
    claim_counts_on_sampling: bool | None = None
    claim_covers_uploads: bool = False
    rounds: int | None = None
    separation: int | None = None
    members: int | None = None
    largest_round: int | None = None
    canaries: Literal["like_clients", "placed"] | None = None
    upload_noise_multiplier: float | None = None

    def __post_init__(self) -> None:
        """Refuses values of the wrong type or out of range."""
        if self.sampling not in SAMPLING_NAMES:
            hint = nearest(str(self.sampling), SAMPLING_NAMES)
            raise InputError(f"sampling: must be one of {', '.join(SAMPLING_NAMES)}; {hint}")
        self._check("probability", self.probability, (int, float), "a number in (0, 1]", most=1)
        self._check("client_rounds", self.client_rounds, (int,), "a whole number of at least 1")
        for name in ("rounds", "separation", "members", "largest_round"):
            self._check(name, getattr(self, name), (int,), "a whole number of at least 1")
        if self.canaries not in (None, "like_clients", "placed"):
            raise InputError(
                f"canaries: must be like_clients, placed or null, got {self.canaries!r}"
            )
        kind = None if self.sampling in _MAY_LACK else SAMPLING_OF_LOG.get(self.sampling)
        for name in () if kind is None else kind.log_keys:
            if getattr(self, name) is None:
                raise InputError(f"{name}: must be given if sampling is {self.sampling!r}")
        for name in ("client_weight", "upload_noise_multiplier"):
            self._check(name, getattr(self, name), (int, float), "a number above 0")
        covers: object = self.claim_covers_uploads
        if not isinstance(covers, bool):
            raise InputError(f"claim_covers_uploads: must be true or false, got {covers!r}")
        counts = self.claim_counts_on_sampling
        if counts is None:
            object.__setattr__(self, "claim_counts_on_sampling", self.sampling != "none")
        elif not isinstance(counts, bool):
            raise InputError(f"claim_counts_on_sampling: must be true or false, got {counts!r}")
        elif counts and self.sampling == "none":
            raise InputError(
                "claim_counts_on_sampling: must be false where sampling is 'none', got true"
            )

    def _check(
        self,
        name: str,
        value: object,
        types: tuple[type, ...],
        right: str,
        *,
        most: float = math.inf,
    ) -> None:
        if value is None:
            return
        is_number = isinstance(value, types) and not isinstance(value, bool)
        if not is_number or not 0 < value <= most:  # type: ignore[operator]
            raise InputError(f"{name}: must be {right} or null, got {value!r}")


def read_participation(path: Path) -> Participation | None:
    """Reads a participation.json; None if there is none."""
    if not path.exists():
        return None
    fields: Any = read_json(path, object, "JSON")
    known = [field.name for field in dataclasses.fields(Participation)]
    if not isinstance(fields, Mapping):
        raise InputError(f"{path}: must be an object with the keys {', '.join(known)}")
    for key in fields:
        if key not in known:
            raise InputError(f"{path}: unknown key {key!r}: {nearest(str(key), known)}")
    if "sampling" not in fields:
        raise InputError(f"{path}: lacks the key 'sampling'")
    try:
        return Participation(**fields)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def write_participation(path: Path, participation: Participation) -> None:
    """Writes a participation.json, without those keys of `_WRITTEN_IF_SET` that are None."""
    fields = dataclasses.asdict(participation)
    for name in _WRITTEN_IF_SET:
        if fields[name] is None:
            del fields[name]
    write_text(path, json.dumps(fields, indent=2) + "\n")


# The secret from which a schedule is drawn. The seed makes a run repeatable and may be public; the
# secret, in a file that only its owner may read, keeps its sampling private.


_BITS = 256


def new_secret() -> int:
    """A secret from the operating system's entropy."""
    return secrets.randbits(_BITS)


def write_secret(path: Path, secret: int) -> None:
    """Writes a secret for its owner alone."""
    write_text(path, f"{secret:0{_BITS // 4}x}\n", OWNER_ALONE)


def read_secret(path: Path) -> int:
    """Reads a secret."""
    with reading(path):
        text = read_foreign(path).decode("ascii", errors="replace").strip()
    if not re.fullmatch(rf"[0-9a-f]{{{_BITS // 4}}}", text):
        raise InputError(
            f"{path}: holds no secret of a schedule; must be {_BITS // 4} hexadecimal digits, such "
            "as `openssl rand -hex 32` prints"
        )
    return int(text, 16)
