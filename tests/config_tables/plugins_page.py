"""The config and the module of docs/plugins.md."""

from pathlib import Path

from tests.tests_of_docs import ROOT, blocks


def of_page(language: str) -> str:
    """The page's one block of a language, `toml` or `python`."""
    (block,) = blocks((ROOT / "docs/plugins.md").read_text(), language)
    return block


def write_page(folder: Path) -> Path:
    """Writes the page's module and its config into a folder; returns the config's path."""
    (folder / "my_kinds.py").write_text(of_page("python"))
    path = folder / "config.toml"
    path.write_text(of_page("toml"))
    return path
