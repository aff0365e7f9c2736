"""Commitments: config, tests and claim of a run, fixed before training.

A commitment is a file that may be published: claim and method in plain text, and the HMAC-SHA256 of
each key and value of the resolved config and of the inputs, under a nonce of 256 random bits. The
nonce is in a second file, the opening, which the owner keeps until the run is over. Without the
nonce, trying likely values finds none, so even a small seed does not reveal coins and canaries.
With the nonce, any key can be checked by itself, and no other value fits.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as name:
...     sealed = make_commitment({"seed": 7}, {"claimed_epsilon": 4.0}, {})
...     write_commitment(Path(name) / "commitment.json", sealed)
...     opened = open_commitment(Path(name) / "commitment.json")
...     opened.others({"seed": 7}), opened.others({"seed": 8})
([], ['seed'])
"""

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from fl_audit.attacks.threat_models import statistics_of
from fl_audit.config.file import config_to_toml, flat_keys
from fl_audit.config.inputs import PREFIX, Inputs, read_recorded_inputs, words_of_input
from fl_audit.config.run_tables import Config
from fl_audit.errors import InputError
from fl_audit.estimators import valid_methods
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.text_files import (
    OWNER_ALONE,
    check_format_version,
    parse_toml,
    read_foreign,
    read_json,
    read_toml,
    write_text,
)
from fl_audit.version import __version__

# Committed keys.


FORMAT_VERSION = 1

_ELSEWHERE = ("ray",)
"""Tables of a config that do not affect results: the cluster."""


class Commitment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The published file.

    Attributes:
      claim: The config keys of the claim, in plain text.
      method: The config keys of the tests, in plain text, and the tests that they select.
      config: The HMAC-SHA256 of each key of config and inputs with its value, by key.
    """

    format_version: int
    fl_audit_version: str
    claim: dict[str, Any]
    method: dict[str, Any]
    config: dict[str, str]


@dataclass(frozen=True)
class Opened:
    """A commitment with the nonce that opens it."""

    commitment: Commitment
    text: bytes  # the text of the published file
    nonce: str  # 64 hexadecimal digits

    @property
    def digest(self) -> str:
        """The SHA-256 of the file, which identifies the commitment."""
        return hashlib.sha256(self.text).hexdigest()

    def others(self, keys: Mapping[str, Any]) -> list[str]:
        """The keys whose values (`committed_keys`) differ from the committed values, sorted."""
        committed = self.commitment.config
        return [
            key
            for key in sorted({*committed, *keys})
            if key not in keys or committed.get(key) != _sealed(self.nonce, key, keys[key])
        ]


def make_commitment(
    keys: Mapping[str, Any], claim: Mapping[str, Any], method: Mapping[str, Any]
) -> Opened:
    """Commits to a config's `keys`, with claim and method in plain text, under a new nonce."""
    nonce = secrets.token_hex(32)
    commitment = Commitment(
        format_version=FORMAT_VERSION,
        fl_audit_version=__version__,
        claim=dict(claim),
        method=dict(method),
        config={key: _sealed(nonce, key, keys[key]) for key in sorted(keys)},
    )
    text = msgspec.json.format(msgspec.json.encode(commitment)) + b"\n"
    return Opened(commitment, text, nonce)


def commitment_to(config: Config, inputs: Inputs) -> Opened:
    """Commits to a run of a config on its inputs, with a new nonce."""
    keys = committed_keys(config) | inputs.keys()
    return make_commitment(keys, committed_claim(config), method_of(config))


def _sealed(nonce: str, key: str, value: Any) -> str:
    # Only a date or a time becomes a list with null, which TOML lacks, so no other value fits.
    dumped = json.dumps(value, sort_keys=True, default=lambda time: [None, repr(time)])
    text = f"{key}={dumped}"
    return hmac.new(bytes.fromhex(nonce), text.encode(), hashlib.sha256).hexdigest()


def committed_keys(config: Config) -> dict[str, Any]:
    """The values of a config by key, without keys that do not affect results."""
    return _keys(parse_toml(config_to_toml(config), "config"))


def recorded_keys(folder: RunFolder) -> dict[str, Any]:
    """The committed keys of the config and of the inputs in a run's folder."""
    return _keys(read_toml(folder.config)) | read_recorded_inputs(folder).keys()


def _keys(table: Mapping[str, Any]) -> dict[str, Any]:
    relevant = {key: value for key, value in table.items() if key not in _ELSEWHERE}
    return flat_keys(relevant, tells_apart=True)


def committed_claim(config: Config) -> dict[str, Any]:
    """The claim in [audit]: all keys that begin with "claim", and delta."""
    audit = msgspec.json.decode(msgspec.json.encode(config.audit))  # with lists, as in a file
    return {
        key: value
        for key, value in audit.items()
        if (key.startswith("claim") or key == "delta") and value is not None
    }


def method_of(config: Config) -> dict[str, Any]:
    """The tests of the claim: keys of [audit], and the available statistics and methods."""
    audit = config.audit
    return {
        "verdict_method": audit.verdict_method,
        "verdict_statistic": audit.verdict_statistic,
        "confidence": audit.confidence,
        "threat_models": list(audit.threat_models),
        "statistics": [s.name for s in statistics_of(config.canaries, audit)],
        "estimators": list(valid_methods(config.canaries.inclusion)),
    }


# Files of a commitment.


def opening_of(path: Path) -> Path:
    """The path of a commitment's nonce, which only its owner may read."""
    return path.with_name(f"{path.name}.opening")


def tries_of(path: Path) -> Path:
    """The path of the list of runs under a commitment."""
    return path.with_name(f"{path.name}.tries")


class _Opening(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of an opening."""

    nonce: str


def check_uncommitted(path: Path) -> None:
    """Raises InputError if a file of a commitment exists: none is ever replaced."""
    for file_path in (path, opening_of(path), tries_of(path)):
        if file_path.exists():
            alone = "" if path.exists() else f" (delete it if no {path.name} was ever published)"
            raise InputError(
                f"{file_path}: exists already, and a commitment is never replaced{alone}"
            )


def write_commitment(path: Path, opened: Opened) -> None:
    """Writes a new commitment, and its opening, which only the owner may read."""
    check_uncommitted(path)
    try:
        write_text(opening_of(path), opening_text(opened.nonce), OWNER_ALONE)
        write_text(path, opened.text.decode())
    except OSError as error:
        opening_of(path).unlink(missing_ok=True)
        raise InputError(f"{path}: cannot be written: {error.strerror}") from error


def open_commitment(path: Path) -> Opened:
    """Reads a commitment with its opening."""
    text, commitment = read_commitment(path)
    opening = opening_of(path)
    if not opening.exists():
        raise InputError(
            f"{opening}: is missing; `fl-audit commit` wrote it next to the commitment"
        )
    return Opened(commitment, text, read_nonce(opening))


def read_commitment(path: Path) -> tuple[bytes, Commitment]:
    """Reads the published file: its text and its content."""
    commitment = read_json(path, Commitment, "a commitment of `fl-audit commit`")
    check_format_version(path, commitment.format_version, FORMAT_VERSION)
    return read_foreign(path), commitment


def read_nonce(opening: Path) -> str:
    """Reads the nonce in an opening: 64 hexadecimal digits."""
    nonce = read_json(opening, _Opening, "the opening of a commitment").nonce
    if not re.fullmatch("[0-9a-f]{64}", nonce):
        raise InputError(f"{opening}: nonce must be 64 hexadecimal digits")
    return nonce


def opening_text(nonce: str) -> str:
    """The content of the file with a nonce."""
    return msgspec.json.encode(_Opening(nonce)).decode() + "\n"


# Reasons to refuse a run.


def check_committed(path: Path, config: Config) -> Opened:
    """Opens a commitment; raises InputError if version or config differs from the committed one."""
    opened = open_commitment(path)
    version = opened.commitment.fl_audit_version
    if version != __version__:
        raise InputError(
            f"--commitment {path}: was made by fl-audit {version}, but this is fl-audit "
            f"{__version__}; run the config with fl-audit {version}"
        )
    _refuse_others(path, opened, committed_keys(config), are_inputs=False)
    return opened


def check_committed_inputs(path: Path, opened: Opened, inputs: Inputs) -> None:
    """Refuses inputs, such as data, that differ from those committed to."""
    _refuse_others(path, opened, inputs.keys(), are_inputs=True)


def _refuse_others(
    path: Path, opened: Opened, keys: Mapping[str, Any], *, are_inputs: bool
) -> None:
    for key in opened.others(keys):
        if key.startswith(PREFIX) == are_inputs:
            raise InputError(f"--commitment {path}: {words_of_other(key, keys)}")


def words_of_other(key: str, keys: Mapping[str, Any]) -> str:
    """Describes how a key differs from the commitment."""
    if key.startswith(PREFIX):
        return f"{words_of_input(key)} changed since the commitment"
    now = f"is {keys[key]!r}" if key in keys else "is not set"
    return f"key `{key}` {now}, which is not what was committed to"
