"""Files of privacy profiles."""

import pytest

from fl_audit.cli import main
from fl_audit.commands.estimate import read_profile
from fl_audit.errors import InputError


def test_points_in_order_and_further_columns(tmp_path):
    path = tmp_path / "profile.csv"
    path.write_text("source,epsilon,delta\npld,0.5,1e-3\npld,2,1e-6\n")
    assert read_profile(path) == ((0.5, 1e-3), (2.0, 1e-6))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("epsilon\n1\n", "has no column 'delta'"),
        ("epsilon,delta\n1,x\n", "row 1: column `delta` must be a number, got 'x'"),
        ("epsilon,delta\n1_0,0\n", "row 1: column `epsilon` must be a number, got '1_0'"),
        ("epsilon,delta\n1\n", "line 2: must have 2 fields, got 1"),
    ],
)
def test_what_is_no_profile_is_refused_in_a_line(tmp_path, text, words):
    path = tmp_path / "profile.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        read_profile(path)


def test_a_profile_is_claimed_by_its_file(tmp_path, capsys):
    scores, profile = tmp_path / "scores.csv", tmp_path / "profile.csv"
    rows = [f"{i},{i % 2},{0.5 * (i % 2) + 1e-4 * i}" for i in range(200)]
    scores.write_text("\n".join(["canary_id,included,score", *rows]) + "\n")
    profile.write_text("epsilon,delta\n0,0.2\n0.5,1e-5\n")
    call = ["estimate", str(scores), "--delta=1e-5", f"--claimed-profile={profile}"]
    assert main(call) == 3
    said = " ".join(capsys.readouterr().out.split())
    assert "the claim of a privacy profile (ε ≤ 0.500 at δ = 10⁻⁵" in said
    profile.write_text("epsilon,delta\n0,2\n")
    assert main(call) == 2
    assert f"{profile}: claimed profile, point 1: needs" in capsys.readouterr().err
