"""Two release sheets side by side: a published production model, and a run of ours.

    python -m experiments.release_sheets.make RUN

RUN is the folder of a finished run, such as `runs/quickstart-1/noise_0.3`. Three files are written
beside this one: `gboard.html` and `gboard.json` from the publications in `gboard.toml`, and
`quickstart.html` from RUN and `statement.toml`. What follows from published
numbers is computed here, by fl_audit's accounting.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fl_audit.accounting import (
    Denominator,
    FixedRounds,
    FullGuarantee,
    Noise,
    Party,
    Release,
    account,
    attacker_bounds,
    full_guarantee,
)
from fl_audit.accounting.tree_nodes import Trees, squared_sensitivities
from fl_audit.cli import main
from fl_audit.config import ReleaseStatement
from fl_audit.formats.text_files import read_toml, write_text
from fl_audit.number_words import significant, upper_bound_text
from fl_audit.release_sheet.registry_entry import Parameters, registry_entry
from fl_audit.release_sheet.sheet import Line, ReleaseSheet, laid_out, render_sheet

HERE = Path(__file__).parent
FIELDS = {"mechanism_words": "mechanism"}
"""Fields whose name in the file is another one, as its own is a table there."""

COMPUTED = "computed by fl_audit from the published numbers"


def tree_sensitivity(mechanism: Mapping[str, Any]) -> int:
    """The squared sensitivity of a party in equally spaced rounds, the largest of all starts.

    Rounds as close as the separation allows share most nodes. 79 of 98 is the published 0.81.
    """
    step, number = mechanism["min_separation"] + 1, mechanism["max_participation"]
    starts = np.arange(mechanism["rounds"] - step * (number - 1))
    rounds = (starts[:, None] + step * np.arange(number)).ravel()
    members = np.repeat(np.arange(len(starts)), number)
    return int(squared_sensitivities(members, rounds, Trees(mechanism["rounds"])).max())


def release_of(mechanism: Mapping[str, Any]) -> Release:
    """The release, without known canaries: a client replaces them."""
    device = Party(FixedRounds(mechanism["max_participation"]), tree_sensitivity(mechanism))
    noise = mechanism["noise_multiplier"]
    return Release(
        rounds=mechanism["rounds"],
        noise=Noise("tree", noise, noise),
        denominator=Denominator("expected_cohort", float(mechanism["cohort"])),
        client=device,
        canary=device,
    )


def published_sheet(fields: Mapping[str, Any]) -> tuple[ReleaseSheet, dict[str, Any]]:
    """The sheet of the published model, and its entry for a registry."""
    mechanism, sources = fields["mechanism"], fields["sources"]
    found = {
        FIELDS.get(key, key): [Line(line["text"], f"published: {line['source']}") for line in lines]
        for key, lines in fields.items()
        if isinstance(lines, list)
    }
    release = release_of(mechanism)
    delta = mechanism["delta"]
    bounds = attacker_bounds(release, release.client, delta)
    full = full_guarantee(release, release.client, bounds, delta, True)
    epsilon = account(release, delta).client.epsilon
    found |= computed(full, epsilon, mechanism, release.client.squared_sensitivity)
    found["sources"] = [Line(f"{name}: {where}.", "source") for name, where in sources.items()]
    sheet = laid_out(fields["title"], fields["subtitle"], found)
    parameters = Parameters(
        mechanism["published_epsilon"], delta, full.mu, mechanism["published_rho"]
    )
    said = {key: found[key][0].text for key in ("released_to", "data", "unit", "trust_model")}
    product = fields["product"]
    entry = registry_entry(
        sheet, ReleaseStatement(**said, **product), parameters, product["published"]
    )
    entry["deployment"]["administrative"]["registry_authors"] = ["fl-audit, from publications"]
    return sheet, entry


def computed(
    full: FullGuarantee, epsilon: float | None, mechanism: Mapping[str, Any], squared: int | None
) -> dict[str, list[Line]]:
    """What follows from the published numbers."""
    profile = ", ".join(
        f"{upper_bound_text(p.epsilon)} at {significant(p.delta)}" for p in full.profile
    )
    shares = ", ".join(
        f"at most {upper_bound_text(100 * at.true_positive_rate)} % at "
        f"{100 * at.false_positive_rate:g} % false positives"
        for at in full.found
    )
    return {
        "model": [
            Line(
                "Not published: no digest ties this sheet to one model.",
                "looked for in the sources",
            )
        ],
        "check": [
            Line(
                "Anyone can compute the upper bound from the published numbers: python -m "
                "experiments.release_sheets.make. Training, noise and participation cannot be "
                "checked from outside.",
                "the sources, at the end of this sheet",
            )
        ],
        "guarantee": [
            Line(
                f"ε ≤ {upper_bound_text(epsilon)} at δ = {mechanism['delta']:g}, exactly, where "
                f"Rényi DP gave {mechanism['published_epsilon']:.2f}; ρ = {squared} / (2 · "
                f"{mechanism['noise_multiplier']:g}²) = {full.rho:.3f}.",
                COMPUTED,
            )
        ],
        "curve": [
            Line(f"μ {upper_bound_text(full.mu)} (Gaussian DP); ε at δ: {profile}.", COMPUTED)
        ],
        "risk": [
            Line(
                f"Any attacker: true positive rate for participating devices {shares}.",
                COMPUTED,
            )
        ],
    }


def make(run: Path, out: Path) -> None:
    """Writes both sheets, and the published model's entry.

    Args:
      run: The folder of a finished run of ours.
      out: The folder to write to.
    """
    sheet, entry = published_sheet(read_toml(HERE / "gboard.toml"))
    write_text(out / "gboard.html", render_sheet(sheet))
    write_text(out / "gboard.json", json.dumps(entry, indent=1, ensure_ascii=False) + "\n")
    statement = ["--statement", str(HERE / "statement.toml")]
    main(["release", str(run), "--out", str(out / "quickstart.html"), *statement])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", metavar="RUN", type=Path, help="the folder of a finished run")
    parser.add_argument("--out", metavar="DIR", type=Path, default=HERE)
    arguments = parser.parse_args()
    make(arguments.run, arguments.out)
