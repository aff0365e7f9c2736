"""Bugs of noise at the client: each device adds noise to its own upload, and one thing is wrong.

Usage: python -m experiments.broken_mechanisms.client_noise [SEEDS OF THE RIGHT ONE, 20 by default]

One run each: 20 rounds, 100 clients and 600 canaries of which coins include half, each in one
round. The log has the aggregates and the included canaries' uploads, and states the noise of both:
what `fl-audit estimate` says of such a log is the table of README.md.
"""

import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.broken_mechanisms.benchmark import (
    CANARIES,
    CLIENTS,
    DELTA,
    client_update,
    sent_by,
)
from experiments.broken_mechanisms.bugs import ROUNDS
from experiments.broken_mechanisms.servers import (
    CLIP,
    DENOMINATOR,
    DIM,
    NOISE,
    Arrays,
    added,
    clipped,
    normal,
    summed,
)
from fl_audit.attacks import CanaryPool, Participation, RoundScorer
from fl_audit.report.build import EstimateRequest, report_on_folder
from fl_audit.report.checks import failed_checks
from fl_audit.report.folder import AuditedFolder

Uploads = Callable[[Sequence[Arrays], np.random.Generator], list[Arrays]]


def own_noise(share: Callable[[int], float] = lambda count: 1.0) -> Uploads:
    """Each client adds noise of its own, a share of what is stated by the number of clients."""

    def of_round(updates: Sequence[Arrays], random: np.random.Generator) -> list[Arrays]:
        stddev = NOISE * CLIP * share(len(updates))
        return [added(clipped(update, CLIP), normal(random, stddev)) for update in updates]

    return of_round


def same_noise(updates: Sequence[Arrays], random: np.random.Generator) -> list[Arrays]:
    """All clients draw the same noise, as with one seed on all devices."""
    noise = normal(random, NOISE * CLIP)
    return [added(clipped(update, CLIP), noise) for update in updates]


BUGS: dict[str, Uploads] = {
    "(none)": own_noise(),
    "noise of a sum, divided by √n at each client": own_noise(lambda count: count**-0.5),
    "the same noise at all clients": same_noise,
    "half the noise": own_noise(lambda count: 0.5),
}


def audited(uploads: Uploads, seed: int) -> dict[str, Any]:
    """What the checks, and canaries against the stated noise, say of one run."""
    random = np.random.default_rng([seed, 1])
    pool = CanaryPool(seed=seed, count=CANARIES, dim=DIM)
    clients = [client_update(random) for _ in range(CLIENTS)]
    rounds = random.integers(ROUNDS, size=CLIENTS + CANARIES)
    present = np.concatenate([np.ones(CLIENTS, bool), pool.included])
    stated = Participation(
        "none", client_rounds=1, claim_covers_uploads=True, upload_noise_multiplier=NOISE
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        listed = [[int(index) + 1] for index in rounds[CLIENTS:]]
        scorer = RoundScorer.create(path, pool, ROUNDS, listed, participation=stated)
        for index in range(ROUNDS):
            members = np.flatnonzero(present & (rounds == index)).tolist()
            updates = [sent_by(one, clients, pool) for one in members]
            sent = uploads(updates, np.random.default_rng([seed, 2, index]))
            stated = {
                "canary_length": CLIP / DENOMINATOR,
                "noise_stddev": NOISE * CLIP * np.sqrt(len(sent)) / DENOMINATOR,
                "norm_bound": len(sent) * CLIP / DENOMINATOR,
            }
            released = [part / DENOMINATOR for part in summed(sent)]
            scorer.score_round(index + 1, released, **stated)
            of_canaries = {
                one - CLIENTS: upload
                for one, upload in zip(members, sent, strict=True)
                if one >= CLIENTS
            }
            scorer.score_uploads(index + 1, of_canaries)
        scorer.finish()
        report = report_on_folder(AuditedFolder(path), EstimateRequest(delta=DELTA))
    assert report.verdict is not None and report.checks is not None
    lower_bound = {
        name: made.estimate_by("threshold_valid") for name, made in report.statistics.items()
    }
    return {
        "checks": failed_checks(report.checks),
        "outcome": report.verdict.outcome,
        "p": {found.threat_model: found.p_value for found in report.verdict.against},
        "bounds": {
            name: 0.0 if lower_bound[name] is None else lower_bound[name].epsilon
            for name in ("one_upload", "own_rounds")
        },
    }


def _line(name: str, row: dict[str, Any]) -> str:
    checks = ", ".join(row["checks"]) or "–"
    tested = [f"{row['p'].get(model, 1.0):.1g}" for model in ("one_upload", "known_rounds")]
    bounds = [f"{row['bounds'][name]:.3g}" for name in ("one_upload", "own_rounds")]
    return f"| {' | '.join((name, checks, row['outcome'], *tested, *bounds))} |"


def main() -> None:
    """Prints the table, and how often the right mechanism is called broken."""
    heads = ("bug", "checks", "stated noise", "p: one upload", "aggregates")
    print(f"| {' | '.join(heads)} | bound: one upload | aggregates |")
    print("|---|---|---|---|---|---|---|")
    for name, uploads in BUGS.items():
        print(_line(name, audited(uploads, 1)), flush=True)
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    right = [audited(BUGS["(none)"], 1 + seed) for seed in range(runs)]
    called = sum(bool(row["checks"]) or row["outcome"] == "contradicted" for row in right)
    largest = max(row["bounds"]["one_upload"] for row in right)
    print(f"\n{called} of {runs} right runs called broken; largest bound {largest:.3g}")


if __name__ == "__main__":
    main()
