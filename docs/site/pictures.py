"""Makes the pictures of README and docs from the runs of a quickstart, with Chromium.

    .venv/bin/fl-audit quickstart --out RUNS
    .venv/bin/python docs/site/pictures.py RUNS

`quickstart.png` has histograms of both runs, `report_*.png` the page of the run with noise: wide,
at 400 pixels, and dark.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).parents[1]
SHOWN = ("Own rounds", "Final − initial")


def _shoot(page: Path, picture: str, width: int, height: int, *, is_dark: bool = False) -> None:
    style = ["--blink-settings=preferredColorScheme=0"] if is_dark else []
    options = [f"--window-size={width},{height}", f"--screenshot={DOCS / picture}", *style]
    chromium = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    subprocess.run([*chromium, *options, page.resolve().as_uri()], check=True, capture_output=True)


def _framed(page: Path, folder: Path, width: int, height: int) -> Path:
    """A page in a frame of a width that a window of Chromium cannot have."""
    frame = folder / "frame.html"
    frame.write_text(
        f'<body style="margin:0"><iframe src="{page.resolve().as_uri()}" '
        f'style="border:0;width:{width}px;height:{height}px"></iframe>'
    )
    return frame


def _histograms(pages: dict[str, Path], folder: Path) -> Path:
    """A page with the histograms SHOWN of several pages, each under its title."""
    parts = []
    for title, page in pages.items():
        text = page.read_text(encoding="utf-8")
        style = text[text.index("<style>") : text.index("</style>")]
        figures = [
            found
            for name in SHOWN
            for found in re.findall(rf'<figure aria-label="[^"]*: {name}">.*?</figure>', text, re.S)
        ]
        parts.append(f"<h2>{title}</h2><div class='pair'>{''.join(figures)}</div>")
    pair = ".pair { display: grid; grid-template-columns: 1fr 1fr; gap: 2rem; }"
    made = folder / "histograms.html"
    head = f"<meta charset=utf-8>{style}{pair} body {{ padding: 1rem 2.5rem; }}</style>"
    made.write_text(f"<!DOCTYPE html>{head}{''.join(parts)}", encoding="utf-8")
    return made


def main(runs: Path) -> None:
    """Makes the pictures of a quickstart's folder."""
    without, noisy = runs / "noise_0" / "report.html", runs / "noise_0.3" / "report.html"
    with tempfile.TemporaryDirectory() as folder:
        titles = {"Noise multiplier 0": without, "Noise multiplier 0.3": noisy}
        _shoot(_histograms(titles, Path(folder)), "quickstart.png", 1000, 1080)
        _shoot(noisy, "report_wide.png", 1300, 1120)
        _shoot(noisy, "report_dark.png", 1300, 1120, is_dark=True)
        _shoot(_framed(noisy, Path(folder), 400, 1300), "report_narrow.png", 400, 1300)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
