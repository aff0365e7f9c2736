"""The config and the module of docs/plugins.md."""

import re
from pathlib import Path

_PAGE = Path(__file__).parents[2] / "docs" / "plugins.md"


def of_page(language: str) -> str:
    """The page's one block of a language, `toml` or `python`."""
    (block,) = re.findall(rf"^```{language}\n(.*?)^```$", _PAGE.read_text(), re.M | re.S)
    return block


def write_page(folder: Path) -> Path:
    """Writes the page's module and its config into a folder; returns the config's path."""
    (folder / "my_kinds.py").write_text(of_page("python"))
    path = folder / "config.toml"
    path.write_text(of_page("toml"))
    return path
