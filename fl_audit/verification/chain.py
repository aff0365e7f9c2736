"""Compares a folder's files with its chain (round_chain.py): links, rounds, rows and digests."""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fl_audit.errors import InputError
from fl_audit.formats.folders import LOCK_NAME, LogFolder, RunFolder
from fl_audit.formats.npy_file import read_array
from fl_audit.formats.round_chain import (
    Chain,
    Logged,
    Reported,
    Resumed,
    Saved,
    Scored,
    Scoring,
    digest_of,
    read_chain,
)
from fl_audit.formats.text_files import open_foreign, reading
from fl_audit.number_words import count
from fl_audit.verification.findings import Verified

_SHOWN = 5
"""The most rounds that a finding about a file lists."""


def verify_chain(
    folder: RunFolder | LogFolder, link: str | None, verified: Verified
) -> Chain | None:
    """Compares a folder's files with its chain; returns the chain, None if missing or unreadable.

    `link` is the last link, if the verifier knows it: the chain of a rewritten folder has another
    last link.
    """
    if not folder.chain.exists():
        if isinstance(folder, RunFolder):
            verified.add(folder.chain, "is missing: every run has one")
        elif link is not None:
            verified.add(folder.chain, f"is missing, so that the link {link} cannot be found in it")
        elif any(path.exists() for path in folder.of_scorer()):
            verified.add(folder.chain, "is missing: `RoundScorer` writes one")
        else:
            verified.note(
                "no chain: another system wrote the folder, so that rounds which were changed, "
                "dropped or repeated show only where numbers do not fit"
            )
        return None
    chain = None
    with verified.reading(folder.chain):
        chain = read_chain(folder.chain)
    if chain is None:
        return None
    last = chain.lines[-1].link
    if link is not None and link != last:
        how = (
            "was continued after that link"
            if link in [line.link for line in chain.lines]
            else "was written anew"
        )
        verified.add(
            folder.chain, f"its last link is {last}, not {link}, as given: the folder {how}"
        )
    for number in chain.broken:
        verified.add(
            folder.chain,
            f"line {number} does not follow from the one before it: a line was changed, dropped, "
            "repeated or moved",
        )
    if chain.torn:
        verified.note(
            f"{folder.chain.name}: the last line is cut off, as after a kill; this line does not "
            "count"
        )
    _verify_files(folder, chain, verified)
    with verified.reading(folder.chain):
        _verify_rows(folder, chain, verified)
    if isinstance(folder, RunFolder):
        _verify_order(folder, chain, verified)
    _note_sessions(chain, verified)
    if isinstance(folder, RunFolder):
        _note_others(folder, chain, verified)
    return chain


def _verify_files(folder: RunFolder | LogFolder, chain: Chain, verified: Verified) -> None:
    begun = dict(chain.begun.files)
    for path in folder.withheld() if isinstance(folder, RunFolder) else ():
        if not path.exists():
            begun.pop(path.name, None)
    _compare(folder.path, begun, "since the audit began", verified)
    scored, reported = chain.last(Scored), chain.last(Reported)
    if not chain.is_scored and isinstance(folder, RunFolder):
        verified.add(folder.chain, "has rounds, or a resume, after its last scores")
    if scored is not None:
        written = dict(scored.files)
        if isinstance(folder, LogFolder):
            if not chain.is_scored:
                written.pop(folder.direction_sum.name, None)  # rounds after the scores add to it
            with verified.reading(folder.faults):
                if _has_only_grown(folder.faults, written.get(folder.faults.name)):
                    del written[folder.faults.name]
        _compare(folder.path, written, "since scores were written", verified)
    if reported is None and isinstance(folder, RunFolder):
        verified.note(
            "the report is not in the chain, as after a run that was killed while writing it"
        )
    if reported is not None:
        _compare(folder.path, reported.files, "since the report was written", verified)
    _verify_added(folder, chain, verified)


def _verify_added(folder: RunFolder | LogFolder, chain: Chain, verified: Verified) -> None:
    """Finds files that a report would read but that are not in the chain."""
    known = _names_in(chain)
    read = [*folder.identity(), *folder.path.glob("scores_*.csv")]
    if isinstance(folder, RunFolder):
        logs = (*folder.round_logs(), *folder.release_logs())
        read += [*folder.training_outputs(), folder.record, *logs]
    elif chain.is_scored:
        read += [*folder.round_logs(), folder.variables, folder.claim]
    for path in sorted(set(read)):
        if path.name not in known and path.exists():
            verified.add(path, "was added later: the chain does not list it")


def _note_others(folder: RunFolder, chain: Chain, verified: Verified) -> None:
    """Notes files in a run's folder that the chain lacks, and symbolic links."""
    here = {path.name: path for path in sorted(folder.path.iterdir())}
    known = {folder.chain.name, folder.report_html.name, folder.report_json.name, LOCK_NAME}
    if others := sorted(here.keys() - _names_in(chain) - known):
        verified.note(f"not looked at: {', '.join(map(_printable, others))}")
    if links := [_printable(name) for name, path in here.items() if path.is_symlink()]:
        verified.note(f"links to files elsewhere, which may change: {', '.join(links)}")


def _printable(name: str) -> str:
    """A file's name in ASCII, without look-alike letters."""
    return name if name.isascii() and name.isprintable() else ascii(name)


def _names_in(chain: Chain) -> set[str]:
    """The names of all files that a chain has digests of."""
    keys = ("files", "rows", "step_rows")
    return {name for line in chain.lines for key in keys for name in getattr(line, key, {})}


def _compare(folder: Path, files: dict[str, str], since: str, verified: Verified) -> None:
    for name, expected in files.items():
        with verified.reading(folder / name):
            if not (folder / name).exists():
                verified.add(name, "is missing")
            elif digest_of(folder / name) != expected:
                verified.add(name, f"has changed {since}")


def _has_only_grown(path: Path, expected: str | None) -> bool:
    """Whether a file's first lines have the expected digest; False if none is expected."""
    if expected is None or not path.exists():
        return False
    so_far = hashlib.sha256()
    with reading(path), open_foreign(path) as file:
        for line in file:
            so_far.update(line)
            if so_far.hexdigest() == expected:
                return True
    return False


def _verify_rows(folder: RunFolder | LogFolder, chain: Chain, verified: Verified) -> None:
    """Compares the rows of each round's logs with the chain; a round being written is noted."""
    logged = {name for line in chain.rounds.values() for name in (*line.rows, *line.step_rows)}
    for name in sorted(logged - {folder.round_directions.name}):
        if not (folder.path / name).exists():
            verified.add(name, "is missing")
    last = chain.lines[-1]
    cut = last.round if isinstance(last, Scoring) else None
    changed: dict[str, list[int]] = defaultdict(list)
    for row in chain.changed_rows(folder.path):
        if row.round != cut:
            changed[row.name].append(row.round)
    if cut is not None:
        verified.note(
            f"round {cut} is not in the chain, as it is being written or its program was ended; "
            "RoundScorer.open enters it before the next round or scores"
        )
        if isinstance(folder, LogFolder):
            _leave_out_next(changed, folder.round_measures.name, cut)
    whole = chain.rounds.keys() - {cut}
    if logged and whole and all(len(changed.get(name, ())) == len(whole) for name in logged):
        verified.add(folder.chain, "is of another run: no row of any log matches it")
    for name, rounds in changed.items():
        what = "has changed since it was" if len(rounds) == 1 else "have changed since they were"
        verified.add(name, f"{_rounds(rounds)} {what} logged")
    for path in folder.round_logs():
        if path.exists() and path.suffix == ".npy" and path != folder.round_directions:
            extra = _written(path) - chain.rounds.keys() - {cut}
            if extra:
                verified.add(path, f"holds {_rounds(sorted(extra))}, which the chain lacks")


def _leave_out_next(changed: dict[str, list[int]], measures: str, cut: int) -> None:
    """Leaves out the next measured round, which loses the comparison with a half-written one."""
    rounds = changed.pop(measures, [])
    after = min((number for number in rounds if number > cut), default=None)
    if others := [number for number in rounds if number != after]:
        changed[measures] = others


def _written(path: Path) -> set[int]:
    """The rounds, from 1, with values in a log."""
    rows = read_array(path, "a log")
    if rows.dtype.kind not in "biuf":
        raise InputError(f"{path}: is not a log: it holds no numbers")
    is_written = np.isfinite(rows).any(axis=tuple(range(1, rows.ndim)))
    return set((np.flatnonzero(is_written) + 1).tolist())


def _rounds(rounds: Sequence[int]) -> str:
    """Rounds in words.

    >>> _rounds([3]), _rounds([3, 5]), _rounds(range(1, 9))
    ('round 3', 'rounds 3, 5', 'rounds 1, 2, 3, 4, 5 and 3 more')
    """
    plural, more = len(rounds) > 1, len(rounds) - _SHOWN
    named = ", ".join(map(str, rounds[:_SHOWN]))
    return f"round{'s' * plural} {named}{f' and {more} more' * (more > 0)}"


def _verify_order(folder: RunFolder, chain: Chain, verified: Verified) -> None:
    """Finds rounds, checkpoints, resumes and scores that are out of order."""
    completed = saved = 0
    for number, line in enumerate(chain.lines, start=1):
        wrong = None
        if isinstance(line, Logged):
            if line.round != completed + 1:
                wrong = (
                    f"is round {line.round} after round {completed}: rounds were dropped or moved"
                )
            completed = line.round
        elif isinstance(line, Saved):
            if line.rounds != completed:
                wrong = f"is a checkpoint of {line.rounds} rounds after round {completed}"
            saved = line.rounds
        elif isinstance(line, Resumed):
            if line.rounds > saved:
                wrong = f"resumes after round {line.rounds}; the last checkpoint is of {saved}"
            completed = saved = line.rounds
        elif isinstance(line, Scored) and line.rounds != completed:
            wrong = f"has scores of {line.rounds} rounds after round {completed}"
        if wrong is not None:
            verified.add(folder.chain, f"line {number}: {wrong}")


def _note_sessions(chain: Chain, verified: Verified) -> None:
    words = f"chain: {count(len(chain.rounds), 'round')}"
    if chain.sessions > 1:
        words += f" in {chain.sessions} sessions"
    if chain.rounds_again:
        words += f", {count(chain.rounds_again, 'round')} logged again"
    verified.note(f"{words}; its last link is {chain.lines[-1].link}")
