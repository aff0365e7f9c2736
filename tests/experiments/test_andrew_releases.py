"""The real releases of Andrew et al. (2023), Table 1, in a small dimension."""

import json
from pathlib import Path

from experiments.andrew2023_table1 import releases

FOLDER = Path(releases.__file__).parent


def test_rows_are_those_of_the_table_and_share_nothing():
    audits = releases.audits(trials=2, dim=500, canaries=10)
    for epsilon, audit in audits.items():
        shown = json.loads((FOLDER / f"epsilon_{epsilon}.json").read_text())
        assert audit.to_json().keys() == shown.keys()
        assert audit.sigma == shown["sigma"]
    assert len({epsilon for audit in audits.values() for epsilon in audit.epsilons}) == 6
