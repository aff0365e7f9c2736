"""Compares a run's config, claim and method with its commitment, and finds other runs under it."""

from collections.abc import Iterator
from pathlib import Path

from fl_audit.config import commitment, tries
from fl_audit.config.file import load_recorded
from fl_audit.config.inputs import PREFIX
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.round_chain import Chain, read_chain
from fl_audit.verification.findings import Verified


def verify_commitment(
    folder: RunFolder, chain: Chain | None, published: Path | None, verified: Verified
) -> None:
    """Compares a run with its commitment.

    `published` is the file of the commitment as published before training; if None, the copy in the
    folder is used.
    """
    text = public = None
    if published is not None:
        text, public = commitment.read_commitment(published)
    if not folder.commitment.exists():
        if published is not None:
            verified.add(
                folder.commitment, f"is missing: the run was not begun under {published.name}"
            )
        return
    with verified.reading(folder.commitment):
        recorded = tries.read_try(folder)
        sealed, sealed_text = recorded.content(folder.commitment), recorded.commitment.encode()
        if chain is None:
            verified.add(
                folder.commitment,
                "cannot be tied to the start of the run: there is no readable chain",
            )
        elif folder.commitment.name not in chain.begun.files:
            verified.add(
                folder.commitment, "was added later: the first line of the chain does not list it"
            )
        if text is not None and public is not None and text != sealed_text:
            verified.add(folder.commitment, f"is another commitment than {published}")
            sealed, sealed_text = public, text
        _verify_plain_words(folder, sealed, verified)
        _verify_tries(folder, recorded, chain, published, verified)
        openings = [folder.opening]
        if published is not None:
            openings.append(commitment.opening_of(published))
        opening = next((path for path in openings if path.exists()), None)
        if opening is None:
            verified.note(
                f"{folder.commitment.name}: is not opened, as {folder.opening.name} is missing"
            )
            verified.not_made_again.append(folder.commitment.name)
        else:
            with verified.reading(opening):
                opened = commitment.Opened(sealed, sealed_text, commitment.read_nonce(opening))
                _verify_keys(folder, opened, opening, verified)


def _verify_keys(
    folder: RunFolder, opened: commitment.Opened, opening: Path, verified: Verified
) -> None:
    keys = commitment.recorded_keys(folder)
    others = opened.others(keys)
    if others and len(others) == len({*keys, *opened.commitment.config}):
        verified.add(
            opening,
            "its nonce does not open the commitment: no config entry matches its digest",
        )
        return
    for key in others:
        file = folder.inputs if key.startswith(PREFIX) else folder.config
        verified.add(file, commitment.words_of_other(key, keys))


def _verify_plain_words(
    folder: RunFolder, sealed: commitment.Commitment, verified: Verified
) -> None:
    config = load_recorded(folder.config)
    for name, recorded, now in (
        ("claim", sealed.claim, commitment.committed_claim(config)),
        ("method", sealed.method, commitment.method_of(config)),
    ):
        for key in sorted({*recorded, *now}):
            if recorded.get(key) != now.get(key):
                verified.add(
                    folder.commitment,
                    f"`{name}.{key}` is {recorded.get(key)!r}, but {now.get(key)!r} according to "
                    "config.toml",
                )


def _verify_tries(
    folder: RunFolder,
    recorded: tries.Try,
    chain: Chain | None,
    published: Path | None,
    verified: Verified,
) -> None:
    """Looks for other runs under the commitment: in its list of runs, and in sibling folders."""
    if recorded.number > 1:
        verified.add(
            folder.commitment, f"records this run as number {recorded.number} under the commitment"
        )
    link = None if chain is None else chain.lines[0].link
    file = None if published is None else commitment.tries_of(published)
    if file is not None and not file.exists():
        verified.note(f"{file.name}: is missing; it may have listed other runs")
    elif file is not None:
        with verified.reading(file):
            listed = tries.read_tries(file)
            if link not in [attempt.link for attempt in listed]:
                verified.add(file, f"does not list the run in {folder.path.name}")
            for attempt in listed:
                if attempt.link != link:
                    verified.add(
                        file,
                        f"line {attempt.number}: lists another run under this commitment, in "
                        f"{attempt.folder}",
                    )
    for other in _siblings(folder, recorded, link, verified):
        verified.add(
            folder.commitment,
            f"{other.name}, in the same directory, is another run under this commitment",
        )


def _siblings(
    folder: RunFolder, recorded: tries.Try, link: str | None, verified: Verified
) -> Iterator[Path]:
    """The sibling folders of other runs under the same commitment, as far as they are readable."""
    here = folder.path.resolve()
    try:
        paths = sorted(here.parent.iterdir())
    except OSError as error:
        verified.note(f"other runs in {here.parent} were not looked for: {error.strerror}")
        return
    for path in paths:
        other = RunFolder(path)
        try:
            if path == here or not other.commitment.is_file() or not other.chain.is_file():
                continue
            is_same = tries.read_try(other).commitment == recorded.commitment
            if is_same and read_chain(other.chain).lines[0].link != link:
                yield path
        except (InputError, OSError):
            continue
