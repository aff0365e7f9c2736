"""Logs that were cut or changed since the checkpoint are refused, and what grew since is not."""

import numpy as np
import pytest

from fl_audit.attacks.audit_table import Audit
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.round_logs import create_log
from fl_audit.run.folder import check_logs, seal_logs

_AUDIT = Audit(threat_models=["checkpoints"], release_every=2)
_ROUNDS = 5


def _folder(path):
    folder = RunFolder(path)
    logs = {
        folder.round_cosines: create_log(folder.round_cosines, np.float32, (_ROUNDS, 3)),
        folder.aggregates: create_log(folder.aggregates, np.float64, (_ROUNDS, 2, 2)),
        folder.release_cosines: create_log(folder.release_cosines, np.float32, (3, 3)),
    }
    folder.metrics.write_text("round\n")
    return folder, logs


def _write(folder, logs, completed):
    """Writes the rows of the round before `completed`."""
    logs[folder.round_cosines][completed - 1] = completed
    logs[folder.aggregates][completed - 1] = completed
    if completed % 2 == 0 or completed == _ROUNDS:
        logs[folder.release_cosines][(completed - 1) // 2] = completed
    with folder.metrics.open("a") as file:
        file.write(f"{completed}\n")


def test_seals_grow_with_the_rounds_and_allow_for_later_rows(tmp_path):
    folder, logs = _folder(tmp_path)
    seals = {}
    for completed in range(1, _ROUNDS + 1):
        _write(folder, logs, completed)
        seals = seal_logs(folder, _AUDIT, range(completed, _ROUNDS), seals)
        assert seals == seal_logs(folder, _AUDIT, range(completed, _ROUNDS), {})
        check_logs(folder, seals)
        if completed == 3:
            at_three = seals
    check_logs(folder, at_three)
    assert seals["release_cosines.npy"].length == folder.release_cosines.stat().st_size
    lengths = [at_three[name].length for name in ("round_cosines.npy", "release_cosines.npy")]
    assert lengths == [128 + 3 * 12, 128 + 1 * 12]


@pytest.mark.parametrize(
    "name", ["round_cosines.npy", "aggregates.npy", "release_cosines.npy", "metrics.csv"]
)
def test_a_file_that_is_cut_changed_or_gone_is_refused(tmp_path, name):
    folder, logs = _folder(tmp_path)
    for completed in (1, 2, 3):
        _write(folder, logs, completed)
    seals = seal_logs(folder, _AUDIT, range(3, _ROUNDS), {})
    del logs
    path = tmp_path / name
    content = path.read_bytes()
    length = seals[name].length
    path.write_bytes(content[: length - 1])
    with pytest.raises(InputError, match=f"{name}: has {length - 1} bytes, had at least {length}"):
        check_logs(folder, seals)
    changed = bytearray(content)
    changed[length - 2] ^= 1
    path.write_bytes(changed)
    with pytest.raises(InputError, match=f"{name}: its first {length} bytes have changed"):
        check_logs(folder, seals)
    path.unlink()
    with pytest.raises(InputError, match=f"{name}: is not what the checkpoint goes with: No such"):
        check_logs(folder, seals)


def test_a_flipped_bit_in_a_sum_of_directions_or_a_released_model_is_refused(tmp_path):
    folder, logs = _folder(tmp_path)
    for completed in (1, 2, 3):
        _write(folder, logs, completed)
    sums = [folder.direction_sum("sum", count) for count in (2, 3)]  # of two checkpoints
    kept = [*sums, folder.direction_sum("checkpoints_sum", 1), folder.released_model(2)]
    for path in kept:
        np.save(path, np.ones(4))
    seals = seal_logs(folder, _AUDIT, range(3, _ROUNDS), {})
    sums[0].unlink()  # as before the next checkpoint
    check_logs(folder, seals)
    for path in kept[1:]:
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(InputError, match=f"{path.name}: its first .* bytes have changed"):
            check_logs(folder, seals)
        path.write_bytes(content)


def test_a_model_that_the_next_checkpoint_does_without_is_not_sealed(tmp_path):
    folder, logs = _folder(tmp_path)
    for completed in (1, 2, 3, 4):
        _write(folder, logs, completed)
    np.save(folder.released_model(2), np.ones(4))
    np.save(folder.released_model(4), np.ones(4))  # of a run that was killed
    seals = seal_logs(folder, _AUDIT, range(4, _ROUNDS), {})
    assert not any("released" in name for name in seals)
