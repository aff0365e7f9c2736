"""How often audits by the adapters contradict a true claim, and a claim where half the noise lacks.

    python -m experiments.in_the_wild.adapters opacus sampled 100

Each audit is one small training with canaries. `sampled`: canaries are drawn as examples are, and
the claim is the privacy profile of the library's own accountant. `known`: each canary has one step
that the attacker knows, and the claim is the noise's own. In a half of the audits the library is
made to add half the noise that it says.
"""

import importlib
import logging
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from fl_audit.commands.estimate import read_profile
from fl_audit.report.folder import AuditedFolder, folder_statistics
from fl_audit.verdict.claims import GaussianClaim, ProfileClaim
from fl_audit.verdict.curve_claim_tests import curve_tests
from fl_audit.verdict.scope import Scope

DELTA, CONFIDENCE = 1e-3, 0.95


def is_contradicted(folder: Path, claim: GaussianClaim | ProfileClaim, rounds: str) -> bool:
    """Whether the verdict on a claim would be *contradicted*; its power is not simulated."""
    scope = Scope(counts_on_sampling=rounds == "sampled")
    found = [one for one in folder_statistics(AuditedFolder(folder)) if scope.covers(one.name)]
    tests = curve_tests(claim, found, CONFIDENCE).tests
    return any(one.p_value is not None and one.p_value <= one.level for one in tests)


def main() -> None:
    """Prints a row for each kind of audit."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    library, rounds, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
    training = importlib.import_module(f"experiments.in_the_wild.{library}_training")
    claim: GaussianClaim | ProfileClaim = GaussianClaim(training.MU, DELTA)
    if rounds == "sampled":
        with tempfile.TemporaryDirectory() as folder:
            training.write_profile(Path(folder) / "profile.csv")
            claim = ProfileClaim(read_profile(Path(folder) / "profile.csv"), DELTA)
    print("| rounds of canaries | noise | contradicted | s |\n|---|---|---|---|")
    for share in (1.0, 0.5):
        before, contradicted = time.process_time(), 0
        for seed in np.random.SeedSequence([1, int(2 * share)]).generate_state(number).tolist():
            with tempfile.TemporaryDirectory() as folder:
                training.train(Path(folder) / "audit", seed, rounds, share)
                contradicted += is_contradicted(Path(folder) / "audit", claim, rounds)
        seconds = time.process_time() - before
        print(
            f"| {rounds} | {share:g} × stated | {contradicted} of {number} | {seconds:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
