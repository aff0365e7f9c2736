"""The pages that tests of the documentation read, and the blocks of code on them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    {
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "benchmarks").rglob("*.md"),
        *(ROOT / "experiments").rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
    }
)


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of one language, in their order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def indented_blocks(text: str) -> list[str]:
    """The blocks that four blanks indent."""
    without_fences = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"(?:^    .*\n?)+", without_fences, re.MULTILINE)
