"""Score files of a folder that contradict what else is in it."""

import json

import pytest

from fl_audit.errors import InputError
from fl_audit.report.folder import AuditedFolder, folder_statistics

POOL = {"format_version": 2, "family": "rademacher", "seed": 1, "count": 4, "dim": 100}
ROWS = ["0,1,0.5", "1,0,0.25", "2,1,0.75", "3,0,0"]


def written(folder, word: str | None, name: str = "max"):
    more = ("", "") if word is None else (",inclusion", f",{word}")
    lines = ["canary_id,included,score" + more[0], *(row + more[1] for row in ROWS)]
    (folder / f"scores_{name}.csv").write_text("\n".join(lines) + "\n")


def test_score_files_say_alike_who_decided(tmp_path):
    written(tmp_path, "fixed_half")
    written(tmp_path, None, "sum")
    with pytest.raises(
        InputError, match=r"scores_\w+.csv: says that \w+ decided .*must be the same"
    ):
        folder_statistics(AuditedFolder(tmp_path))


@pytest.mark.parametrize(("in_pool", "in_file"), [("fixed_half", None), ("coins", "fixed_half")])
def test_the_pool_says_the_same(tmp_path, in_pool, in_file):
    (tmp_path / "pool.json").write_text(json.dumps(POOL | {"inclusion": in_pool}))
    written(tmp_path, in_file)
    with pytest.raises(InputError, match=f"and pool.json says {in_pool}; must be the same"):
        folder_statistics(AuditedFolder(tmp_path))
    written(tmp_path, in_pool)
    (found,) = folder_statistics(AuditedFolder(tmp_path))
    assert found.scores.inclusion == in_pool


def test_scores_are_of_the_listed_canaries(tmp_path):
    written(tmp_path, None)
    listed = tmp_path / "canaries.csv"
    listed.write_text("canary_id,included\n0,1\n1,0\n2,1\n3,0\n")
    assert folder_statistics(AuditedFolder(tmp_path))
    for rows in ("0,1\n1,0\n2,1\n3,1\n", "0,1\n1,0\n2,1\n", "0,1\n1,0\n2,1\n3,0\n4,0\n"):
        listed.write_text("canary_id,included\n" + rows)
        with pytest.raises(InputError, match="must score exactly the canaries of"):
            folder_statistics(AuditedFolder(tmp_path))
