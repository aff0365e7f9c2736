"""Speed and memory of training against stock TFF, and the time that an audit adds.

`python -m benchmarks.training` takes about eight minutes on two idle cores; it needs no data set
and no network. Every race checks first that both sides give the same model.
"""

import os
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_NUM_INTRAOP_THREADS"] = "1"  # as `fl-audit run` does

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tensorflow_federated as tff

from benchmarks.audited_round import AuditedRound, UnauditedRound
from benchmarks.equality import check
from benchmarks.matrix_products import matrix_product_peak
from benchmarks.next_word import GROWING, PAPER, classifier_of, made_up_clients
from benchmarks.peak_memory import in_new_process, megabytes
from benchmarks.peers.stock_tff import (
    StockRound,
    fed_avg,
    fed_avg_of_ours,
    keras_dense,
    keras_next_word,
    variable_model,
)
from benchmarks.rounds import OurRound, in_memory, run_of
from benchmarks.timing import race, seconds, wall_time
from fl_audit.config import DigitsTask, FedAvg
from fl_audit.engines.engine import as_vector
from fl_audit.engines.prepare import PreparedRun
from fl_audit.engines.tff.canary_process import model_weights
from fl_audit.engines.tff.native_worker import native_runtime
from fl_audit.tasks.partitioned import load_digits_task
from fl_audit.tasks.tf.networks import as_classifier

COHORT, BATCHES = 10, 4
AUDITED_COHORT = 50
CANARIES_IN_ROUND = (0, 1)
COHORTS = (10, 100, 1000)

MOST = 1e-5
"""Largest distance of two models after a round, as a share of the change in the round."""


def main() -> None:
    """Prints the tables."""
    tf.config.list_logical_devices()  # makes TensorFlow read its threads, so that
    del os.environ["TF_NUM_INTRAOP_THREADS"]  # stock TFF's worker keeps its own default.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        against_stock(folder)
        share_of_peak()
        audited_round(folder)
    by_cohort()
    by_dim()


def against_stock(folder: Path) -> None:
    """Prints races against `build_unweighted_fed_avg` under TFF's own runtime."""
    lstm, digits = next_word_run(COHORT, BATCHES), digits_run()
    print("A round of local against tff.learning.algorithms.build_unweighted_fed_avg under native")
    print(f"({os.cpu_count()} clients at once in TFF's worker), both with the same DP aggregator:")
    print("clip to 1, noise 0. Models agree to 1e-5 of the round's change.")
    print(f"LSTM: {lstm.task.classifier.dim:,} parameters, {COHORT} clients of {BATCHES} batches")
    print(f"of 16 x 20 words. Digits: {digits.task.classifier.dim:,} parameters, 100 clients of 3")
    print("batches of 5, in blocks of 8.")
    print(f"{'':58}{'ours':>10}  {'stock':>10}  how many times as fast (range)")
    of_lstm, of_digits = (as_classifier(run.task.classifier) for run in (lstm, digits))
    keras_lstm = variable_model(lambda: keras_next_word(PAPER), of_lstm)
    keras_digits = variable_model(lambda: keras_dense([64, 512, 256, 10]), of_digits)
    with native_runtime(folder / "worker.log", os.cpu_count() or 1):
        ours = OurRound(lstm)
        show_race(
            "LSTM, stock with TFF's own Keras baseline", ours, lstm, fed_avg(keras_lstm, lstm)
        )
        show_race("LSTM, stock with our model", ours, lstm, fed_avg_of_ours(lstm))
        ours = OurRound(digits)
        show_race("Digits, stock with Keras", ours, digits, fed_avg(keras_digits, digits))
        show_race("Digits, stock with our model", ours, digits, fed_avg_of_ours(digits))


def next_word_run(cohort: int, batches: int) -> PreparedRun:
    """A run of the paper's LSTM."""
    clients = made_up_clients(PAPER, cohort, batches)
    return run_of(in_memory("made up", classifier_of(PAPER), clients), FedAvg())


def digits_run() -> PreparedRun:
    """A run of the quickstart's model on 100 clients."""
    return run_of(load_digits_task(DigitsTask(num_clients=100), seed=0), FedAvg(batch_size=5))


def show_race(
    name: str,
    ours: OurRound,
    run: PreparedRun,
    process: tff.learning.templates.LearningProcess,
) -> None:
    """Prints the times of rounds of both, and the clients a second."""
    stock = StockRound(process, run)
    check_models(run, ours().state, stock())
    taken = race(ours, stock, turns=5)
    print(f"{name:58}{taken}")
    cohort = len(run.task.population.client_ids)
    rates = [cohort / statistics.median(times) for times in (taken.ours, taken.peer)]
    print(f"{'  clients a second':58}{rates[0]:>10.3g}  {rates[1]:>10.3g}", flush=True)


def check_models(run: PreparedRun, ours: Any, peer: Any) -> None:
    """Checks the distance of two models after a round from the same weights."""
    start = as_vector(run.task.classifier.initial_weights)
    change, other = (as_vector(model_weights(state)) - start for state in (ours, peer))
    check(np.linalg.norm(change - other) / np.linalg.norm(change), 0.0, MOST)


def share_of_peak() -> None:
    """Prints floating-point operations a second in training over those of a matrix product."""
    print("\nFLOP/s in training the LSTM on batches of 16 x 20 words, products of matrices counted")
    print(f"alone ({PAPER.flops_per_batch / 1e9:.3g} GFLOP a batch); peak: square float32 products")
    print(f"{'':58}{'training':>10}  {'peak':>10}  share (range)")
    show_share(f"A round of {COHORT} clients of {BATCHES} batches", COHORT, BATCHES)
    show_share("A round of 2 clients of 20 batches", 2, 20)


def show_share(name: str, cohort: int, batches: int) -> None:
    """Prints the share for one kind of round, measuring peak and round in turns."""
    one_round = OurRound(next_word_run(cohort, batches))
    one_round()
    flops = PAPER.flops_per_batch * cohort * batches
    turns = [
        (flops / wall_time(one_round), matrix_product_peak(side_by_side=os.cpu_count() or 1))
        for _ in range(5)
    ]
    shares = sorted(mine / peak for mine, peak in turns)
    mine, peak = (statistics.median(column) / 1e9 for column in zip(*turns, strict=True))
    low, middle, high = shares[0], statistics.median(shares), shares[-1]
    print(f"{name:58}{mine:>8.0f} G  {peak:>8.0f} G  {middle:.0%} ({low:.0%} to {high:.0%})")


def audited_round(folder: Path) -> None:
    """Prints the time that an audit adds to a round."""
    print(
        f"\nA round of {AUDITED_COHORT} clients of {BATCHES} batches, LSTM, under local. Audited: 2"
    )
    print(
        "more participants that are canaries, 2,000 hadamard canaries scored and logged. Unaudited:"
    )
    print("build_unweighted_fed_avg with our model, without canaries or their place in the data.")
    print(f"{'':58}{'unaudited':>10}  {'audited':>10}  how many times as long (range)")
    run = next_word_run(AUDITED_COHORT, BATCHES)
    ours, unaudited = OurRound(run), UnauditedRound(run)
    audited = AuditedRound(ours, run, CANARIES_IN_ROUND, folder / "audit")
    check_models(run, ours().state, unaudited())
    check_cosines(run, *audited())
    print(f"{'Whole round':58}{race(unaudited, audited, turns=5)}", flush=True)
    print(f"{'  of which scoring and logging':70}{seconds(wall_time(audited.score, 5)):>10}")


def check_cosines(
    run: PreparedRun, aggregate: npt.NDArray[np.float32], cosines: npt.NDArray[np.float64]
) -> None:
    """Checks scores against explicit vectors of canaries that took part and of one that did not."""
    unit = aggregate.astype(np.float64)
    unit /= np.linalg.norm(unit)
    some = [*CANARIES_IN_ROUND, 1999]
    expected = [float(run.family.vector(j).astype(np.float64) @ unit) for j in some]
    check(cosines[some], expected, 1e-6)


def by_cohort() -> None:
    """Prints clients a second and memory for growing cohorts."""
    sizes = GROWING[1]
    print("\nBy cohort: clients of one batch of 16 x 20 words, a process each")
    show_growth(lambda cohort: (asdict(sizes), cohort, 1), COHORTS)


def by_dim() -> None:
    """Prints clients a second and memory for growing models."""
    print("\nBy d: 4 clients of 2 batches of 16 x 20 words, a process each")
    show_growth(lambda sizes: (asdict(sizes), 4, 2), GROWING)


def show_growth(arguments_of: Callable[[Any], tuple[Any, int, int]], steps: Any) -> None:
    """Prints a line for each size or cohort."""
    print(f"{'d':>12}{'cohort':>10}{'round':>12}{'clients/s':>12}{'peak memory':>14}")
    for step in steps:
        sizes, cohort, batches = arguments_of(step)
        run = in_new_process("one_round", sizes=sizes, cohort=cohort, batches=batches)
        print(
            f"{run['dim']:>12,}{cohort:>10,}{seconds(run['seconds']):>12}"
            f"{cohort / run['seconds']:>12.3g}{megabytes(run['peak']):>14}",
            flush=True,
        )


if __name__ == "__main__":
    main()
