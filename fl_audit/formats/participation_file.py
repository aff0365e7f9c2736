"""The file participation.json of a log: how clients may take part, and what a claim counts on."""

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from fl_audit.errors import InputError, nearest
from fl_audit.formats.atomic import write_text
from fl_audit.formats.json_file import read_json

Sampling = Literal["none", "poisson", "fixed_size"]
"""How it is drawn who takes part in a round: not at all (rounds are dealt beforehand), each client
with one probability, or a number of clients."""


@dataclass(frozen=True)
class Participation:
    """How often, and with what weight, a client may take part in a training.

    Attributes:
      sampling: How the clients of a round are drawn.
      probability: The probability with which a client is drawn into a round, in (0, 1]; None where
        it is not known, or nothing is drawn.
      client_rounds: The most rounds that a client may take part in; None where it is not known.
      client_weight: The largest weight of a client, in units of a canary's; None where not known.
      claim_counts_on_sampling: Whether a claim about this training counts on the draw, so that it
        says nothing of an attacker who knows the rounds; by default where something is drawn.

    Raises:
      InputError: A value is of the wrong type or out of range.
    """

    sampling: Sampling
    probability: float | None = None
    client_rounds: int | None = None
    client_weight: float | None = None
    claim_counts_on_sampling: bool | None = None

    def __post_init__(self) -> None:
        """Checks the fields."""
        if self.sampling not in get_args(Sampling):
            hint = nearest(str(self.sampling), get_args(Sampling))
            raise InputError(f"sampling: must be one of {', '.join(get_args(Sampling))}; {hint}")
        self._check("probability", self.probability, (int, float), "a number in (0, 1]", most=1)
        self._check("client_rounds", self.client_rounds, (int,), "a whole number of at least 1")
        self._check("client_weight", self.client_weight, (int, float), "a number above 0")
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
    """Reads a participation.json; None where there is none.

    Raises:
      InputError: It is no JSON object, a key is unknown or missing, or a value is wrong.
    """
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
        raise InputError(f"{path}: has no key 'sampling', needs it")
    try:
        return Participation(**fields)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def write_participation(path: Path, participation: Participation) -> None:
    """Writes a participation.json."""
    write_text(path, json.dumps(dataclasses.asdict(participation), indent=2) + "\n")
