"""Writing of a page where --out asks for it."""

from pathlib import Path

from fl_audit.errors import InputError


def write_page(html: str, path: Path) -> None:
    """Writes a page, which appears whole.

    Raises:
      InputError: The file cannot be written.
    """
    from fl_audit.formats.text_files import write_text

    try:
        write_text(path, html)
    except OSError as error:
        raise InputError(f"--out {path}: cannot be written: {error.strerror}") from error
