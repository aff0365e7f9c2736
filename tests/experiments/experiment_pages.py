"""The tables on an experiment's page, and whether a printed row stands in them."""

from pathlib import Path

ROOT = Path(__file__).parents[2]


def table_rows(text: str) -> list[list[str]]:
    """The cells of each row of the tables in a text, without the bold of some."""
    lines = (line.replace("*", "").strip() for line in text.splitlines())
    rows = ([cell.strip() for cell in line[1:-1].split("|")] for line in lines if line[:1] == "|")
    return [cells for cells in rows if not all(set(cell) <= set("-") for cell in cells)]


def page_text(experiment: str) -> str:
    """The page of an experiment, by the name of its folder."""
    return (ROOT / "experiments" / experiment / "README.md").read_text(encoding="utf-8")


def page_rows(experiment: str) -> list[list[str]]:
    """The rows of all tables on an experiment's page."""
    return table_rows(page_text(experiment))


def ends_with(shown: list[str], row: list[str]) -> bool:
    """Whether a row of the page is the printed one, perhaps behind a name."""
    return shown[len(shown) - len(row) :] == row


def row_of(experiment: str, *first: str) -> list[str]:
    """The cells behind some first ones, which one row of the page has and no other."""
    (row,) = (row for row in page_rows(experiment) if row[: len(first)] == list(first))
    return row[len(first) :]
