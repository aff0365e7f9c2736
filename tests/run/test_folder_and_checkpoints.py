"""A run's folder: whose it is, the chain of its logs, and checkpoints."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fl_audit.config import Canaries, Config, DigitsTask, GaussianFixed, Shuffle
from fl_audit.config_tables.audit import Audit
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.round_chain import Saved, digests_of, read_chain
from fl_audit.formats.round_logs import create_log
from fl_audit.formats.text_files import write_text
from fl_audit.run.folder_and_checkpoints import (
    Checkpoint,
    check_logs,
    check_new,
    check_resumable,
    check_same_canaries,
    kept_files,
    load_checkpoint,
    open_chain,
    save_checkpoint,
    write_identity,
)
from fl_audit.tasks.task_kinds import PythonTask

_CONFIG = Config(
    task=DigitsTask(),
    mechanism=GaussianFixed(noise_multiplier=0.1, clip_norm=1.0),
    participation=Shuffle(rounds=5, clients_per_round=3),
    canaries=Canaries(count=10),
)


def _interrupted(path):
    path.mkdir(exist_ok=True)
    write_identity(RunFolder(path), _CONFIG, "canary_id,included,rounds\n")


def test_taken_folders_are_refused(tmp_path):
    (tmp_path / "file").write_text("something")
    with pytest.raises(InputError, match="must be a new or empty folder"):
        check_new(tmp_path)
    with pytest.raises(InputError, match="must be a new or empty folder"):
        check_new(tmp_path / "file")
    _interrupted(tmp_path / "run")
    with pytest.raises(InputError, match="continue it with --resume"):
        check_new(tmp_path / "run")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc")
def test_a_folder_that_cannot_be_written_is_refused_before_the_work(tmp_path):
    with pytest.raises(InputError, match=r"/proc/x/y: cannot be written: "):
        check_new(Path("/proc/x/y"))
    (tmp_path / "file").write_text("something")
    with pytest.raises(InputError, match=r"file/run: cannot be written: Not a directory"):
        check_new(tmp_path / "file" / "run")
    check_new(tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


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


def test_an_option_without_a_number_is_the_same_again(tmp_path):
    task = PythonTask(module="my_task:make", options={"fill": float("nan"), "all": [float("nan")]})
    config = msgspec.structs.replace(_CONFIG, task=task)
    write_identity(RunFolder(tmp_path), config, "canary_id,included,rounds\n")
    assert check_resumable(tmp_path, config).path == tmp_path
    task.options["fill"] = 1.0
    with pytest.raises(InputError, match=r"`task\.options\.fill` was nan and is now 1"):
        check_resumable(tmp_path, config)


def test_a_run_with_other_rounds_is_not_resumed(tmp_path):
    folder = RunFolder(tmp_path)
    listed = "canary_id,included,rounds\n0,1,3\n1,0,\n"
    write_text(folder.canaries, listed)
    check_same_canaries(folder, listed)
    with pytest.raises(InputError, match=r"canaries\.csv: has other canaries or rounds than this"):
        check_same_canaries(folder, listed.replace("1,0,", "1,0,2"))
    folder.canaries.unlink()
    folder.checkpoint.touch()
    with pytest.raises(InputError, match=r"canaries\.csv: cannot be read"):
        check_same_canaries(folder, listed)


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


_AUDIT = Audit(threat_models=["checkpoints"], release_every=2)
_ROUNDS = 5


class _Trained:
    """A run of so many rounds, with a checkpoint after each."""

    def __init__(self, path: Path) -> None:
        self.folder = folder = RunFolder(path)
        _interrupted(path)
        self._logs = {
            folder.round_cosines: create_log(folder.round_cosines, np.float32, (_ROUNDS, 3)),
            folder.aggregates: create_log(folder.aggregates, np.float64, (_ROUNDS, 2, 2)),
            folder.release_cosines: create_log(folder.release_cosines, np.float32, (3, 3)),
        }
        folder.metrics.write_text("round\n")
        self.chain = open_chain(folder, 0)

    def round(self, number: int, noise: float = 0.0) -> Checkpoint:
        folder = self.folder
        self._logs[folder.round_cosines][number - 1] = number + noise
        self._logs[folder.aggregates][number - 1] = number
        step = (number + 1) // 2 if number % 2 == 0 or number == _ROUNDS else None
        if step is not None:
            self._logs[folder.release_cosines][step - 1] = number
        with folder.metrics.open("a") as file:
            file.write(f"{number}\n")
        self.chain.log_round(number, folder.round_logs(), step, folder.release_logs())
        kept = digests_of(kept_files(folder, _AUDIT, range(number, _ROUNDS)))
        self.chain.add(Saved(rounds=number, files=kept))
        return Checkpoint(number, [], self.chain.head)


def test_a_checkpoint_goes_with_its_rounds_and_allows_for_later_ones(tmp_path):
    run = _Trained(tmp_path)
    checkpoints = [run.round(number) for number in range(1, _ROUNDS + 1)]
    for checkpoint in checkpoints:
        check_logs(run.folder, checkpoint)
    assert sorted(read_chain(run.folder.chain).rounds) == [1, 2, 3, 4, 5]


def test_rounds_that_come_again_after_a_kill_replace_those_before(tmp_path):
    run = _Trained(tmp_path)
    checkpoint = [run.round(number) for number in (1, 2, 3)][1]
    run.chain.log_round(4, [])  # killed after this
    with run.folder.chain.open("a") as file:
        file.write('{"what":"round","lin')
    check_logs(run.folder, checkpoint)
    run.chain = open_chain(run.folder, 2)
    run.folder.metrics.write_text("round\n1\n2\n")
    check_logs(run.folder, run.round(3, noise=0.5))
    chain = read_chain(run.folder.chain)
    assert chain.broken == ()
    assert sorted(chain.rounds) == [1, 2, 3]
    assert (chain.rounds_again, chain.sessions) == (2, 2)
    assert chain.changed_rows(tmp_path) == ()


@pytest.mark.parametrize(
    ("name", "byte"),
    [
        ("round_cosines.npy", 128 + 12),
        ("aggregates.npy", 128 + 40),
        ("release_cosines.npy", 128 + 3),
        ("metrics.csv", 8),
    ],
)
def test_a_log_that_is_cut_changed_or_gone_is_refused(tmp_path, name, byte):
    run = _Trained(tmp_path)
    checkpoint = [run.round(number) for number in (1, 2, 3)][-1]
    path = tmp_path / name
    content = path.read_bytes()
    for changed in (
        content[:byte] + bytes([content[byte] ^ 1]) + content[byte + 1 :],
        content[:byte],
    ):
        path.write_bytes(changed)
        with pytest.raises(InputError, match=f"{name}: round [12] has changed since it was logged"):
            check_logs(run.folder, checkpoint)
    path.unlink()
    with pytest.raises(InputError, match=f"{name}: is missing, and the checkpoint needs it"):
        check_logs(run.folder, checkpoint)


def test_a_chain_that_lacks_the_checkpoint_is_refused(tmp_path):
    run = _Trained(tmp_path)
    checkpoint = [run.round(number) for number in (1, 2, 3)][-1]
    lines = run.folder.chain.read_text().splitlines(keepends=True)
    run.folder.chain.write_text("".join(lines[:-1]))
    with pytest.raises(InputError, match=r"chain\.jsonl: lacks the line that was written"):
        check_logs(run.folder, checkpoint)
    run.folder.chain.write_text("".join([*lines[:2], *lines[3:]]))
    with pytest.raises(InputError, match=r"chain\.jsonl: line 3 does not follow from the one"):
        check_logs(run.folder, checkpoint)


def test_a_config_that_has_changed_is_not_gone_on_with(tmp_path):
    run = _Trained(tmp_path)
    run.folder.canaries.write_text("canary_id,included,rounds\n0,1,2\n")
    with pytest.raises(InputError, match=r"canaries\.csv: has changed since the run began"):
        open_chain(run.folder, 0)


def test_a_flipped_bit_in_a_sum_of_directions_or_a_released_model_is_refused(tmp_path):
    run = _Trained(tmp_path)
    folder = run.folder
    sums = [folder.direction_sum("sum", count) for count in (2, 3)]  # of two checkpoints
    kept = [*sums, folder.direction_sum("checkpoints_sum", 1), folder.released_model(2)]
    for path in kept:
        np.save(path, np.ones(4))
    checkpoint = [run.round(number) for number in (1, 2, 3)][-1]
    sums[0].unlink()  # as before the next checkpoint
    check_logs(folder, checkpoint)
    for path in kept[1:]:
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(InputError, match=f"{path.name}: has changed since the checkpoint"):
            check_logs(folder, checkpoint)
        path.write_bytes(content)


def _leaves(scale: float) -> list[Any]:
    """The parts of a state: all that TFF's states are made of."""
    return [
        np.float32(scale),
        b"dp_accounting.dp_event",
        np.bool_(True),
        np.int32(7),
        np.full((2, 3), scale, np.float32),
        np.zeros(0, np.float32),
    ]


def test_a_checkpoint_gives_back_the_same_leaves(tmp_path):
    path = tmp_path / "checkpoint.npz"
    save_checkpoint(path, Checkpoint(12, _leaves(0.1), "0af3"))
    loaded = load_checkpoint(path, _leaves(0.0))
    assert loaded.link == "0af3"
    assert loaded.completed_rounds == 12
    for leaf, expected in zip(loaded.leaves, _leaves(0.1), strict=True):
        np.testing.assert_array_equal(leaf, expected)
        assert np.asarray(leaf).dtype == np.asarray(expected).dtype
    assert type(loaded.leaves[1]) is bytes


def _damaged(path: Path, changes: dict[str, Any]) -> None:
    """A checkpoint whose arrays are replaced, or left out where None stands for them."""
    save_checkpoint(path, Checkpoint(1, _leaves(0.1), "0af3"))
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files} | changes
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})


@pytest.mark.parametrize("value", [None, np.zeros(2), np.float64(1), -np.ones((1,))])
@pytest.mark.parametrize(
    "field", ["format_version", "completed_rounds", "link", "leaf_0002", "leaf_0003"]
)
def test_a_field_that_is_missing_or_of_another_kind_is_one_line(tmp_path, field, value):
    path = tmp_path / "checkpoint.npz"
    _damaged(path, {field: value})
    with pytest.raises(InputError, match=r"checkpoint\.npz: (is|belongs)"):
        load_checkpoint(path, _leaves(0.0))
