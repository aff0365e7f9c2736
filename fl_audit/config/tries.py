"""Runs under a commitment, each of which is a try.

A try has a line, linked to all previous lines, in a file next to the commitment, and a record in
the run's folder, whose chain begins with the digest of that record.
"""

import hashlib
import os
from pathlib import Path

import msgspec

from fl_audit.config.commitment import Commitment, Opened, opening_text, tries_of
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.round_chain import Logged, read_chain
from fl_audit.formats.text_files import (
    OWNER_ALONE,
    append_whole,
    decode_json,
    in_turn,
    read_foreign,
    read_json,
    reading,
    write_text,
)


class Try(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The record of a run's try, commitment.json in the run's folder.

    Attributes:
      commitment: The text of the published file.
      number: The number of the run under the commitment, from 1.
      before: The SHA-256 of the list of runs when this run began.
    """

    commitment: str
    number: int
    before: str

    @property
    def digest(self) -> str:
        """The SHA-256 of the published file."""
        return hashlib.sha256(self.commitment.encode()).hexdigest()

    def content(self, path: Path) -> Commitment:
        """The commitment; raises InputError, naming `path`, if the text is not valid."""
        return decode_json(self.commitment.encode(), Commitment, str(path), "a commitment")


class ListedTry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line of the list of runs under a commitment.

    Attributes:
      number: The number of the run, from 1.
      link: The first link of the run's chain.
      before: The SHA-256 of the list before this line.
    """

    number: int
    folder: str
    link: str
    before: str


def check_same_try(path: Path, opened: Opened, folder: RunFolder) -> None:
    """Raises InputError for a resumed run that was not started under the commitment."""
    has_commitment = folder.commitment.exists()
    if not has_commitment or read_try(folder).commitment.encode() != opened.text:
        how = "under another commitment" if has_commitment else "without a commitment"
        raise InputError(f"--commitment {path}: the run in {folder.path} was begun {how}")


def check_listed(folder: RunFolder) -> None:
    """Raises InputError for a run under a commitment that may not be listed under it yet.

    A run is listed after its chain begins and before its first round, so any line of a round shows
    it, even of a round that a resumption drops.
    """
    if not folder.commitment.exists():
        return
    lines = read_chain(folder.chain).lines if folder.chain.exists() else ()
    if not any(isinstance(line, Logged) for line in lines):
        raise InputError(
            f"{folder.path}: was begun under a commitment; resume it with --commitment"
        )


def read_try(folder: RunFolder) -> Try:
    """Reads the record of a run's commitment in its folder."""
    return read_json(folder.commitment, Try, "the commitment of a run")


def begin_try(path: Path, opened: Opened, folder: RunFolder) -> None:
    """Records the try and the opening in a run's folder, before its chain begins."""
    listed = read_tries(tries_of(path))
    attempt = Try(opened.text.decode(), len(listed) + 1, _digest(tries_of(path)))
    text = msgspec.json.format(msgspec.json.encode(attempt)).decode()
    write_text(folder.opening, opening_text(opened.nonce), OWNER_ALONE)
    write_text(folder.commitment, text + "\n")


def list_try(path: Path, folder: RunFolder) -> int:
    """Lists a run whose chain has begun, once even if it is resumed; returns its number, from 1."""
    link = read_chain(folder.chain).lines[0].link
    tries = tries_of(path)
    with in_turn(tries):
        listed = read_tries(tries)
        for attempt in listed:
            if attempt.link == link:
                return attempt.number
        line = ListedTry(len(listed) + 1, folder.path.resolve().name, link, _digest(tries))
        append_whole(tries, msgspec.json.encode(line) + b"\n")
        with tries.open("rb") as file:
            os.fsync(file.fileno())
    return line.number


def read_tries(path: Path) -> list[ListedTry]:
    """The listed runs; empty without a file.

    Raises InputError if a line is not valid or does not follow from the lines before.
    """
    if not path.exists():
        return []
    with reading(path):
        lines = read_foreign(path).splitlines(keepends=True)
    listed: list[ListedTry] = []
    before = hashlib.sha256()
    for number, text in enumerate(lines, start=1):
        line = decode_json(text, ListedTry, f"{path}: line {number}", "a line of a list of runs")
        if line.before != before.hexdigest() or line.number != number:
            raise InputError(f"{path}: line {number} does not follow from those before it")
        before.update(text)
        listed.append(line)
    return listed


def _digest(path: Path) -> str:
    content = read_foreign(path) if path.exists() else b""
    return hashlib.sha256(content).hexdigest()
