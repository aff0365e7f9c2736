"""A sheet that has everything, printed by Chromium: two pages of A4."""

import json
import shutil

import pytest
import tomli_w

from fl_audit.cli import main
from tests.report.chromium import PROGRAM, Chromium
from tests.verification.toy_runs import committed_run

OVERRIDES = (
    'participation={kind="bernoulli",rounds=8,clients_per_round=12}',
    "audit={delta=1e-3,claimed_profile=[[0.5,0.2],[9.0,1e-4]],release_every=2,threat_models="
    '["final","final_and_initial","all_iterates","checkpoints","known_rounds","secret_rounds"]}',
)
STATED = {
    "name": "Next-word model for keyboards, release 7",
    "released": "The model's weights and nothing else; no metrics of rounds.",
    "released_to": "Everybody who downloads the app; weights may be read from each phone.",
    "data": "Words typed in Portugal and Brazil from March to June, kept on devices for 30 days.",
    "unit": "A phone with all words that were typed on it; a person may have several.",
    "trust_model": "The server that sums and adds noise is trusted; devices do not see others' "
    "updates; secure aggregation was not used in this training.",
    "earlier_runs": "Two trainings with other learning rates were made in May and not released.",
    "metrics": "Loss and accuracy of rounds are seen by three engineers and deleted after 90 days.",
    "assumptions": "The noise of production was compared with the config by a second team in June.",
    "risks": "Words that many users type are not protected by a guarantee for one user.",
    "contact": "privacy@example.org, +351 000 000 000",
}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which(PROGRAM) is None, reason="no Chromium")
def test_a_sheet_that_has_everything_is_printed_on_two_pages(toy_runtime, tmp_path):
    first = committed_run(tmp_path, *OVERRIDES)
    for name in "abc":
        shutil.copytree(first, tmp_path / "runs" / name)
    listed = {"runs": [{"name": name} for name in "abcd"]}
    (tmp_path / "sweep.json").write_text(json.dumps(listed))
    statement, sheet = tmp_path / "statement.toml", tmp_path / "sheet.html"
    statement.write_text(tomli_w.dumps({"release": STATED}))
    words = ["release", str(tmp_path / "runs" / "a"), "--statement", str(statement)]
    assert main([*words, "--out", str(sheet)]) == 0
    assert "not stated" not in sheet.read_text().split('<p class="sign">')[0]
    with Chromium(tmp_path / "profile") as browser:
        browser.open(sheet, 800, "light")
        assert browser.printed_pages() == 2
