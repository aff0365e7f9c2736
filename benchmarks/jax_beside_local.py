"""Rounds of the engine in JAX beside `local`, in turns, each in a process of its own environment.

    python -m benchmarks.jax_beside_local PYTHON_WITH_JAX PYTHON_WITH_TENSORFLOW [TURNS]

such as `.venv-light/bin/python .venv/bin/python`: the version of JAX decides. Printed are the CPU
and the wall time of `local` over those of JAX, above 1 where JAX is faster.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

_CLIENTS = {"digits": 100, "lstm": 10}
_BATCHES_OF_LSTM = 4


def _round_of(engine: str, model: str) -> Callable[[], object]:
    """A function that trains one round: all clients, no canaries, no noise."""
    import numpy as np

    from benchmarks.next_word import PAPER, made_up_clients, model_of
    from benchmarks.rounds import OurRound, in_memory, run_of
    from fl_audit.config import DigitsTask, FedAvg
    from fl_audit.engines.cohort import RoundData
    from fl_audit.tasks.partitioned import load_digits_task

    if model == "lstm":
        clients = made_up_clients(PAPER, _CLIENTS[model], _BATCHES_OF_LSTM)
        run = run_of(in_memory("made up", model_of(PAPER), clients), FedAvg())
    else:
        task = load_digits_task(DigitsTask(num_clients=_CLIENTS[model]), seed=0)
        run = run_of(task, FedAvg(batch_size=5))
    if engine == "local":
        return OurRound(run)
    from fl_audit.resources import set_jax_defaults

    set_jax_defaults()
    from fl_audit.engines.jax.jax_engine import JaxEngine

    jax_engine = JaxEngine(run)
    state = jax_engine.begin()
    population = run.task.population
    examples = [population.examples(i) for i in range(_CLIENTS[model])]
    data = RoundData(examples, np.zeros(0, np.int64))
    return lambda: jax_engine.run_round(state, data, 0).seen.aggregate


def _serve(engine: str, model: str) -> None:
    """Trains a round for each line that comes in, and answers with its times."""
    one_round = _round_of(engine, model)
    one_round()  # compiles
    print("ready", flush=True)
    for _ in sys.stdin:
        cpu, wall = time.process_time(), time.perf_counter()
        one_round()
        times = (time.process_time() - cpu, time.perf_counter() - wall)
        print(json.dumps(times), flush=True)


def _started(python: str, engine: str, model: str) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [python, "-W", "ignore", "-m", "benchmarks.jax_beside_local", "--serve", engine, model],
        **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True},
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "TF_NUM_INTRAOP_THREADS": "1"},
    )
    while (line := process.stdout.readline()) and line != "ready\n":
        pass
    return process


def _times(process: "subprocess.Popen[str]") -> list[float]:
    process.stdin.write("\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def main(with_jax: str, with_tensorflow: str, turns: int = 6) -> None:
    """Prints a row for each model."""
    for model in _CLIENTS:
        processes = [_started(with_tensorflow, "local", model), _started(with_jax, "jax", model)]
        taken = [[_times(process) for process in processes] for _ in range(turns)]
        for kind, name in enumerate(("CPU", "wall")):
            ratios = sorted(local[kind] / ours[kind] for local, ours in taken)
            middle = statistics.median(ratios)
            print(f"{model:<8}{name:<6}{middle:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")
        for process in processes:
            process.stdin.close()
            process.wait()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        _serve(*sys.argv[2:4])
    else:
        main(*sys.argv[1:3], *map(int, sys.argv[3:4]))
