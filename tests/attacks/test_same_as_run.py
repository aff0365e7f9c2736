"""What this room scores from aggregates is what a run with the same numbers scores."""

import shutil

import msgspec
import numpy as np
import pytest

from fl_audit.attacks.attacker import Attacker
from fl_audit.attacks.compared_vectors import read_compared_vectors
from fl_audit.attacks.log_scores import score_log
from fl_audit.attacks.logs import read_log
from fl_audit.attacks.threat_models import STATISTICS
from fl_audit.canaries.pool import CanaryPool, write_pool
from fl_audit.cli import main
from fl_audit.config import Canaries, Config, DigitsTask, GaussianFixed, Shuffle
from fl_audit.config.file import config_to_toml
from fl_audit.formats.folders import LogFolder, RunFolder
from fl_audit.formats.score_file import read_score_file
from fl_audit.run import train as training_run

CONFIG = Config(
    task=DigitsTask(num_clients=100, hidden=(8,)),
    mechanism=GaussianFixed(noise_multiplier=0.3, clip_norm=0.5),
    participation=Shuffle(rounds=3, clients_per_round=10),
    canaries=Canaries(count=30, family="hadamard"),
    seed=11,
)
POOL = CanaryPool(seed=11, count=30, dim=64 * 8 + 8 + 8 * 10 + 10, family="hadamard")


class LoggingServer(Attacker):
    """Writes what docs/logs.md asks for, and leaves the scoring to others."""

    statistics = ()

    def __init__(self, folder: LogFolder) -> None:
        self._folder = folder
        folder.aggregates.mkdir(parents=True)
        write_pool(folder.pool, POOL)

    @classmethod
    def from_context(cls, context):
        return cls(LogFolder(context.run_folder.path / "log"))

    def see_round(self, seen) -> None:
        if seen.index == 0:
            np.save(self._folder.initial, seen.before)
        name = f"round_{seen.index + 1:06}.npy"
        np.save(self._folder.aggregates / name, seen.aggregate)

    def flush(self) -> None:
        pass

    def scores(self, final):
        np.save(self._folder.final, final)
        return {}


@pytest.mark.slow
@pytest.mark.parametrize(
    "runtime", ["jax", pytest.param("local", marks=(pytest.mark.slow, pytest.mark.tff))]
)
def test_scores_equal_those_of_a_run_with_the_same_numbers(runtime, tmp_path, monkeypatch):
    log = LogFolder(tmp_path / "log")
    original = training_run.make_attackers
    monkeypatch.setattr(
        training_run,
        "make_attackers",
        lambda *arguments: (*original(*arguments), LoggingServer(log)),
    )
    config = msgspec.structs.replace(CONFIG, runtime=runtime)
    (tmp_path / "run.toml").write_text(config_to_toml(config))
    run = tmp_path / "run"
    assert main(["run", str(tmp_path / "run.toml"), "--out", str(run)]) == 0
    scored = score_log(read_log(log, iter))
    assert scored.num_rounds == 3
    assert set(scored.scores) >= {"final", "final_minus_initial", "max", "sum"}
    for statistic in STATISTICS.values():
        if statistic.name not in scored.scores:
            continue
        of_run = read_score_file(run / f"scores_{statistic.name}.csv")
        here = scored.scores[statistic.name]
        assert here.canary_id == of_run.canary_id
        np.testing.assert_array_equal(here.included, of_run.included)
        np.testing.assert_array_equal(here.score, of_run.score)
    # And what is known of the vectors of them.
    known = read_compared_vectors(RunFolder(run).compared_vectors)
    assert {name: of for name, of in known.items() if name != "own_rounds"} == scored.compared
    assert set(known) == {"final", "final_minus_initial", "max", "sum", "own_rounds"}
    # Of each sum the last file is kept, so that verify can make its null distribution again.
    assert [path.name for path in RunFolder(run).direction_sums()] == [
        "direction_sum_sum_000003.npy"
    ]
    # A run's list of its canaries may be handed over as it is.
    shutil.copy(run / "canaries.csv", log.canaries)
    again = score_log(read_log(log, iter))
    np.testing.assert_array_equal(again.scores["max"].included, POOL.included)
    own = read_score_file(run / "scores_own_rounds.csv")
    np.testing.assert_array_equal(again.scores["own_rounds"].score, own.score)
    assert again.compared == known
