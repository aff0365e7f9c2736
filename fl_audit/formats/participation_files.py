"""Files on participation: canaries.csv, participation.json, and the schedule's secret."""

import json
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, get_type_hints

import msgspec
import numpy as np

from fl_audit.accounting.sampling import Sampling
from fl_audit.array_types import IntArray
from fl_audit.errors import InputError, nearest
from fl_audit.formats.text_files import (
    OWNER_ALONE,
    read_csv,
    read_flag,
    read_foreign,
    read_integer,
    read_json,
    reading,
    write_text,
)
from fl_audit.library_words import json_words

# canaries.csv: inclusion and rounds of the pool.


_LARGEST_ROUND = 10**10 - 1
"""The largest round; it fits in 64 bits."""


def canaries_text(
    included: Iterable[bool], rounds: Iterable[Iterable[int]], arms: Sequence[str] = ()
) -> str:
    """The file's text, with the columns `canary_id,included,rounds` and a row per canary.

    `rounds` count from 0; in the file they count from 1, with spaces between. An excluded canary
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
    """A row of the file; without its column `rounds`, from 0, is None and `arm` is empty."""

    included: bool
    rounds: IntArray | None
    arm: str = ""


def read_canaries(path: Path) -> dict[str, CanaryRow]:
    """The rows of the file by `canary_id`."""
    canaries: dict[str, CanaryRow] = {}
    rows = read_csv(path, ("canary_id", "included"), optional=("rounds", "arm"))
    for number, row in enumerate(rows, start=1):
        name = row["canary_id"].strip()
        if name in canaries:
            raise InputError(f"{path}, row {number}: canary_id {name!r} is there twice")
        if (included := read_flag(row["included"])) is None:
            raise InputError(
                f"{path}, row {number}: included must be 0 or 1, got {row['included']!r}"
            )
        rounds = _rounds(path, name, row["rounds"]) if "rounds" in row else None
        canaries[name] = CanaryRow(included, rounds, row.get("arm", "").strip())
    return canaries


def check_scored(path: Path, flags: Mapping[str, bool], listed: Mapping[str, CanaryRow]) -> None:
    """Refuses a score file whose canaries or inclusion differ from canaries.csv."""
    if flags != {name: canary.included for name, canary in listed.items()}:
        raise InputError(
            f"{path}: must score exactly the canaries of canaries.csv, with the same inclusion"
        )


def _rounds(path: Path, canary: str, text: str) -> IntArray:
    """Reads a canary's rounds, which count from 1 in the file, as rounds from 0."""
    numbers = [read_integer(number, _LARGEST_ROUND) for number in text.split()]
    if not all(numbers):  # None, or 0
        raise InputError(
            f"{path}, canary_id {canary!r}: rounds must be whole numbers from 1 on, separated by "
            f"blanks, got {text[:60]!r}"
        )
    return np.array(numbers, dtype=np.int64) - 1


# participation.json: how clients may participate in a log's training, and what a claim relies on.


SAMPLING_OF_LOG: Mapping[str, type[Sampling]] = {
    kind.log_name: kind for kind in Sampling.kinds() if kind.log_name
}
"""How a round samples its clients, by name in the file."""

SAMPLING_NAMES = ("none", *SAMPLING_OF_LOG)
"""The values of `sampling`; with "none" rounds are fixed beforehand."""

_MAY_LACK = ("poisson", "fixed_size")
"""Samplings whose keys (`log_keys`) may be missing in the file."""

_WRITTEN_IF_SET = (
    "rounds",
    "separation",
    "members",
    "largest_round",
    "canaries",
    "upload_noise_multiplier",
)

_AtLeastOne = Annotated[int, msgspec.Meta(ge=1)] | None
_Positive = Annotated[float, msgspec.Meta(gt=0)] | None


class Participation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How often, and with what weight, a client may participate in a training.

    Attributes:
      sampling: How the clients of a round are drawn.
      probability: The probability that a client is drawn into a round, in (0, 1]; None if unknown
        or without sampling.
      client_rounds: The largest number of rounds of a client; None if not known.
      client_weight: The largest weight of a client, as a multiple of a canary's; None if not known.
      claim_counts_on_sampling: Whether a claim about this training relies on sampling, so that it
        does not cover an attacker who knows clients' rounds; by default unless sampling is "none".
      claim_covers_uploads: Whether a claim about this training covers an attacker who sees single
        uploads, as under local differential privacy.
      rounds: The number of rounds of training; None if it is the number of logged rounds.
      separation: Under "b_min_sep" the least distance of two rounds of a client, otherwise the
        number of groups that take turns; None without either.
      members: The number of clients and canaries from which a round samples; None if not known.
      largest_round: The size to which "truncated_poisson" truncates a round; None otherwise.
      canaries: Whether canaries were sampled like clients, or placed in chosen rounds; None if
        that is to be inferred from their rounds.
      upload_noise_multiplier: The standard deviation of the noise that clients add on a coordinate
        of an upload, over the clip norm; None if not known.

    Raises:
      InputError: A value is of the wrong type or out of range.
    """

    sampling: str
    probability: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    client_rounds: _AtLeastOne = None
    client_weight: _Positive = None
    claim_counts_on_sampling: bool | None = None
    claim_covers_uploads: bool = False
    rounds: _AtLeastOne = None
    separation: _AtLeastOne = None
    members: _AtLeastOne = None
    largest_round: _AtLeastOne = None
    canaries: Literal["like_clients", "placed"] | None = None
    upload_noise_multiplier: _Positive = None

    def __post_init__(self) -> None:
        """Refuses values of the wrong type or out of range."""
        for name, value in msgspec.structs.asdict(self).items():
            if isinstance(value, np.generic):  # such as a rate that NumPy computed
                msgspec.structs.force_setattr(self, name, value.item())
        try:
            msgspec.convert(msgspec.structs.asdict(self), _Fields)
        except msgspec.ValidationError as error:
            raise InputError(json_words(error)) from error
        if self.sampling not in SAMPLING_NAMES:
            hint = nearest(self.sampling, SAMPLING_NAMES)
            raise InputError(f"sampling: must be one of {', '.join(SAMPLING_NAMES)}; {hint}")
        kind = None if self.sampling in _MAY_LACK else SAMPLING_OF_LOG.get(self.sampling)
        for name in () if kind is None else kind.log_keys:
            if getattr(self, name) is None:
                raise InputError(f"{name}: must be given if sampling is {self.sampling!r}")
        if self.claim_counts_on_sampling is None:
            msgspec.structs.force_setattr(self, "claim_counts_on_sampling", self.sampling != "none")
        elif self.claim_counts_on_sampling and self.sampling == "none":
            raise InputError(
                "claim_counts_on_sampling: must be false where sampling is 'none', got true"
            )


_Fields = msgspec.defstruct(
    "_Fields", list(get_type_hints(Participation, include_extras=True).items())
)
"""The same fields, for msgspec to check values that a program, not a file, gave."""


def read_participation(path: Path) -> Participation | None:
    """Reads a participation.json; None if there is none."""
    if not path.exists():
        return None
    return read_json(path, Participation, "a statement of how clients participate")


def write_participation(path: Path, participation: Participation) -> None:
    """Writes a participation.json, without those keys of `_WRITTEN_IF_SET` that are None."""
    fields = msgspec.structs.asdict(participation)
    written = {k: v for k, v in fields.items() if v is not None or k not in _WRITTEN_IF_SET}
    write_text(path, json.dumps(written, indent=2) + "\n")


# The secret from which a schedule is drawn. The seed makes a run repeatable and may be public; the
# secret, in a file that only its owner may read, keeps the run's sampling private.


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
