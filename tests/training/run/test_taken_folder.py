import msgspec
import pytest

from fl_audit.config import Canaries, Config, DigitsTask, GaussianFixed, Shuffle
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.text_files import write_text
from fl_audit.run.folder import check_new, check_resumable, check_same_canaries, write_identity

_CONFIG = Config(
    task=DigitsTask(),
    mechanism=GaussianFixed(noise_multiplier=0.1, clip_norm=1.0),
    participation=Shuffle(rounds=5, clients_per_round=3),
    canaries=Canaries(count=10),
)


def _interrupted(path):
    path.mkdir(exist_ok=True)
    write_identity(RunFolder(path), _CONFIG, "canary_id,included,rounds\n")


def test_new_folders_may_be_missing_or_empty(tmp_path):
    assert check_new(tmp_path / "a" / "b").path == tmp_path / "a" / "b"
    assert not (tmp_path / "a").exists()
    check_new(tmp_path)


def test_taken_folders_are_refused(tmp_path):
    (tmp_path / "file").write_text("something")
    with pytest.raises(InputError, match="must be a new or empty folder"):
        check_new(tmp_path)
    with pytest.raises(InputError, match="must be a new or empty folder"):
        check_new(tmp_path / "file")
    _interrupted(tmp_path / "run")
    with pytest.raises(InputError, match="continue it with --resume"):
        check_new(tmp_path / "run")


def test_a_finished_run_is_neither_overwritten_nor_resumed(tmp_path):
    _interrupted(tmp_path)
    RunFolder(tmp_path).report_json.write_text("{}")
    with pytest.raises(InputError, match="already holds a finished run"):
        check_new(tmp_path)
    with pytest.raises(InputError, match="already holds a finished run"):
        check_resumable(tmp_path, _CONFIG)


def test_resuming_needs_the_same_config(tmp_path):
    with pytest.raises(InputError, match="holds no run to resume"):
        check_resumable(tmp_path, _CONFIG)
    _interrupted(tmp_path)
    assert check_resumable(tmp_path, _CONFIG).path == tmp_path
    other = msgspec.structs.replace(_CONFIG, seed=3)
    with pytest.raises(InputError, match="another config: `seed` was 0 and is now 3"):
        check_resumable(tmp_path, other)
    longer = msgspec.structs.replace(_CONFIG, participation=Shuffle(rounds=6, clients_per_round=3))
    with pytest.raises(InputError, match=r"`participation\.rounds` was 5 and is now 6"):
        check_resumable(tmp_path, longer)


def test_a_run_with_other_rounds_is_not_resumed(tmp_path):
    folder = RunFolder(tmp_path)
    older = "canary_id,included,rounds\n0,1,3\n1,0,\n"
    write_text(folder.canaries, older)
    check_same_canaries(folder, older)
    with pytest.raises(InputError, match=r"canaries\.csv: has other canaries or rounds than this"):
        check_same_canaries(folder, older.replace("1,0,", "1,0,2"))
    folder.canaries.unlink()
    folder.checkpoint.touch()
    with pytest.raises(InputError, match=r"canaries\.csv: cannot be read"):
        check_same_canaries(folder, older)


def test_a_kill_between_config_and_canaries_leaves_a_run_to_resume(tmp_path):
    folder = RunFolder(tmp_path)
    _interrupted(tmp_path)
    folder.canaries.unlink()
    check_resumable(tmp_path, _CONFIG)
    check_same_canaries(folder, "canary_id,included,rounds\n")
    assert folder.canaries.read_text() == "canary_id,included,rounds\n"


def test_what_a_killed_process_leaves_does_not_take_a_folder(tmp_path):
    (tmp_path / ".lock").touch()
    (tmp_path / ".config.toml.0a1b2c3d.part").touch()
    check_new(tmp_path)


def test_a_link_to_nothing_is_refused(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "none")
    with pytest.raises(InputError, match="is a link to nothing"):
        check_new(tmp_path / "link")
