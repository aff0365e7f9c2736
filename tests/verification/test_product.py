"""Honest runs of every mechanism, pattern and engine: each is verified in full."""

import pytest

from fl_audit import load_config, start_run
from fl_audit.mechanisms import MECHANISMS
from fl_audit.participation import PATTERNS
from fl_audit.verification import verify_folder

CONFIG = """
seed = 3
[task]
kind = "digits"
num_clients = 40
hidden = [16]
[client]
batch_size = 20
[mechanism]
MECHANISM
[participation]
PATTERN
[canaries]
count = 24
[audit]
delta = 1e-3
claimed_epsilon = 40.0
"""

GAUSSIAN = "noise_multiplier = 1.0\nclip_norm = 1.0"
MECHANISM = {
    "gaussian_adaptive": GAUSSIAN,
    "gaussian_fixed": GAUSSIAN,
    "tree_aggregation": GAUSSIAN,
    "matrix_factorisation": f'{GAUSSIAN}\nstrategy = "banded_sqrt"\nbands = 2',
    "distributed": GAUSSIAN,
    "client_gaussian": GAUSSIAN,
    "none": "canary_norm = 1.0",
}
ENGINES = ("jax", "local", "native", "ray")
DRAWN = "rounds = 6\nclients_per_round = 10"
PATTERN = {
    "shuffle": f'{DRAWN}\ncanaries = "once_per_epoch"',
    "bernoulli": DRAWN,
    "uniform": DRAWN,
    "every_round": "rounds = 4",
    "min_separation": f"{DRAWN}\nseparation = 2",
    "cyclic_poisson": f"{DRAWN}\nseparation = 2",
    "balls_in_bins": DRAWN,
    "random_allocation": DRAWN,
    "b_min_sep": f"{DRAWN}\nseparation = 2",
    "replay": 'path = "log.csv"',
}


def _cases():
    assert set(MECHANISM) == set(MECHANISMS)
    assert set(PATTERN) == set(PATTERNS)
    cases = {(mechanism, "shuffle", engine) for mechanism in MECHANISM for engine in ENGINES}
    for pattern in PATTERN:
        cases |= {("gaussian_fixed", pattern, "jax"), ("matrix_factorisation", pattern, "jax")}
    return sorted(cases)


@pytest.mark.slow
@pytest.mark.parametrize(("mechanism", "pattern", "engine"), _cases())
def test_an_honest_run_holds(tmp_path, mechanism, pattern, engine):
    if engine == "ray":
        pytest.importorskip("ray")
    text = CONFIG.replace("MECHANISM", f'kind = "{mechanism}"\n{MECHANISM[mechanism]}', 1)
    text = text.replace("PATTERN", f'kind = "{pattern}"\n{PATTERN[pattern]}', 1)
    path = tmp_path / "config.toml"
    path.write_text(f'runtime = "{engine}"\n{text}')
    rows = [f"{number},client-{7 * number % 40}" for number in (1, 2, 3, 4)]
    (tmp_path / "log.csv").write_text("\n".join(["round,client_id", *rows]) + "\n")
    models = ["final", "final_and_initial", "all_iterates", "known_rounds"]
    if mechanism == "client_gaussian" and engine in ("jax", "local"):
        models.append("one_upload")
    config = load_config(path, [f"audit.threat_models={models}"])
    start_run(config, tmp_path / "run")
    verified = verify_folder(tmp_path / "run", model=tmp_path / "run" / "model.npz")
    assert verified.outcome == "held", (verified.findings, verified.not_made_again)
