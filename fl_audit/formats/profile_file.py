r"""Privacy profiles: CSV with the columns `epsilon` and `delta`, a row for each point.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder) / "profile.csv"
...     _ = path.write_text("epsilon,delta\n0.5,0.001\n2,1e-6\n")
...     read_profile(path)
((0.5, 0.001), (2.0, 1e-06))
"""

from pathlib import Path

from fl_audit.errors import InputError
from fl_audit.formats.text_files import read_csv

_COLUMNS = ("epsilon", "delta")


def read_profile(path: Path) -> tuple[tuple[float, float], ...]:
    """The points of a privacy profile: pairs of an epsilon and the delta at it."""
    rows = enumerate(read_csv(path, _COLUMNS), start=1)
    return tuple(
        (_number(path, number, row, "epsilon"), _number(path, number, row, "delta"))
        for number, row in rows
    )


def _number(path: Path, number: int, row: dict[str, str], column: str) -> float:
    try:
        return float(row[column])
    except ValueError:
        raise InputError(
            f"{path}, row {number}: {column} must be a number, got {row[column]!r}"
        ) from None
