"""Every kind of run and of log, through every command: none says a word against the truth.

Runs of a NumPy engine take seconds, and have every pattern, family and kind of inclusion; trained
ones have every mechanism, engine and kind of canaries. What is walked, and what may not be said, is
in `tests.verification.walk`.
"""

import json

import numpy as np
import pytest

from fl_audit import load_config, start_run
from fl_audit.accounting.toeplitz import Toeplitz
from fl_audit.accounting.tree_nodes import Trees
from fl_audit.attacks import CanaryPool, Participation, RoundScorer
from fl_audit.canaries.families import FAMILIES
from fl_audit.canaries.pool import write_pool
from fl_audit.formats.folders import LogFolder
from fl_audit.mechanisms import MECHANISMS
from fl_audit.participation import PATTERNS
from tests.verification.walk import SURE, caller, walk_log, walk_run

TOY = """
runtime = "toy"
seed = 3
[task]
kind = "vectors"
dim = 200
[mechanism]
kind = "gaussian_fixed"
noise_multiplier = 0.5
clip_norm = 0.5
"""
DIGITS = """
seed = 3
[task]
kind = "digits"
num_clients = 40
hidden = [16]
[client]
batch_size = 20
[mechanism]
"""
AUDIT = """
[audit]
delta = 1e-3
claimed_epsilon = 200.0
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
VECTORS = {
    **{family: f'family = "{family}"' for family in FAMILIES},
    "fixed_half": 'inclusion = "fixed_half"',
    "pairs": 'inclusion = "pairs"',
    "unequal_coins": 'inclusion = "unequal_coins"\ninclusion_probability = 0.3',
    "arms": 'arms = ["once", "repeats:2"]',
}
EXAMPLES = {
    source: f'kind = "examples"\nsource = "{source}"'
    for source in ("random", "mislabelled", "in_distribution")
}
MODELS = ["final", "final_and_initial", "all_iterates", "known_rounds"]


def write_config(folder, text, pattern, canaries, models=MODELS, *, confidence=0.95):
    """Writes a config, and the log that the pattern `replay` reads."""
    rows = [f"{number},client-{7 * number % 40}" for number in (1, 2, 3, 4)]
    (folder / "log.csv").write_text("\n".join(["round,client_id", *rows]) + "\n")
    participation = f'[participation]\nkind = "{pattern}"\n{PATTERN[pattern]}\n'
    config = folder / "config.toml"
    config.write_text(
        f"{text}\n{participation}[canaries]\ncount = 24\n{canaries}\n{AUDIT}"
        f"threat_models = {json.dumps(models)}\nconfidence = {confidence}\n"
    )
    return config


@pytest.fixture(scope="module")
def other(toy_runtime, tmp_path_factory):
    """The folder of another finished run, to compare with."""
    folder = tmp_path_factory.mktemp("other")
    start_run(load_config(write_config(folder, TOY, "shuffle", "")), folder / "other")
    return folder / "other"


# Runs of the NumPy engine.


_QUICK = ("shuffle", "rademacher", "quick")


def _toy_cells():
    assert set(PATTERN) == set(PATTERNS)
    cells = {(pattern, "rademacher") for pattern in PATTERN}
    cells |= {("shuffle" if kind == "arms" else "bernoulli", kind) for kind in VECTORS}
    for cell in sorted(cells):
        yield pytest.param(cell, marks=pytest.mark.slow)
    yield pytest.param(_QUICK, marks=())


@pytest.mark.parametrize("cell", _toy_cells(), ids="-".join)
def test_a_run_in_numpy(other, tmp_path, capsys, cell):
    pattern, kind, *_ = cell
    models = MODELS if kind != "dirac" else ["final_and_initial", "all_iterates"]
    models = ["known_rounds"] if cell == _QUICK else models
    config = write_config(tmp_path, TOY, pattern, VECTORS[kind], models)
    walk_run(caller(capsys), config, tmp_path / "run", other, plans=cell != _QUICK)


# Trained runs.


def _trained_cells():
    assert set(MECHANISM) == set(MECHANISMS)
    cells = {(mechanism, "shuffle", "", engine) for mechanism in MECHANISM for engine in ENGINES}
    for mechanism in MECHANISM:
        cells |= {(mechanism, "bernoulli", "", "jax"), (mechanism, "every_round", "", "jax")}
    cells |= {("matrix_factorisation", pattern, "", "jax") for pattern in PATTERN}
    for source in EXAMPLES:
        cells |= {("gaussian_fixed", "shuffle", source, engine) for engine in ("jax", "local")}
    return sorted(cells)


@pytest.mark.slow
@pytest.mark.parametrize("cell", _trained_cells(), ids="-".join)
def test_a_trained_run(other, tmp_path, capsys, cell):
    mechanism, pattern, source, engine = cell
    if engine == "ray":
        pytest.importorskip("ray.util")
    text = f'runtime = "{engine}"\n{DIGITS}kind = "{mechanism}"\n{MECHANISM[mechanism]}'
    models = ["final", "all_iterates", "known_rounds"] if source else list(MODELS)
    if mechanism == "client_gaussian" and engine in ("jax", "local"):
        models.append("one_upload")
    canaries = EXAMPLES.get(source, "")
    config = write_config(tmp_path, text, pattern, canaries, models, confidence=SURE)
    left = ("scores_final_loss.csv",) if source else ()
    walk_run(caller(capsys), config, tmp_path / "run", other, left=left)


# Logs.


POOL = CanaryPool(seed=3, count=60, dim=400)
ROUNDS, CLIP, COHORT, NOISE = 6, 0.5, 10, 0.8
ONCE = [[1 + canary % ROUNDS] for canary in range(POOL.count)]


def _sampled(draw):
    """The rounds of each canary, by a function of random numbers."""
    random = np.random.default_rng(11)
    return [(np.flatnonzero(draw(random)) + 1).tolist() for _ in range(POOL.count)]


POISSON = _sampled(lambda random: random.random(ROUNDS) < 0.3)
FIXED = _sampled(lambda random: random.permutation(ROUNDS) < 2)


def _matrix_noise(random):
    """Noise C^-1 z for the first column 1, 1/2 of C."""
    fresh, rows = random.normal(size=(ROUNDS, POOL.dim)), []
    for number, row in enumerate(fresh):
        rows.append(row - (rows[number - 1] / 2 if number else 0))
    return rows


def _tree_noise(random):
    """Noise of a complete binary tree over the rounds: differences of prefix sums of nodes."""
    nodes, before, rows = {}, np.zeros(POOL.dim), []
    for number in range(1, ROUNDS + 1):
        prefix, end = np.zeros(POOL.dim), number
        while end:
            size = end & -end
            key = (end - size, end)
            if key not in nodes:
                nodes[key] = random.normal(size=POOL.dim)
            prefix, end = prefix + nodes[key], end - size
        rows.append(prefix - before)
        before = prefix
    return rows


LOG = {
    "noise_stated": {"rounds": ONCE, "participation": Participation("none", client_rounds=1)},
    "noise_not_stated": {"rounds": ONCE, "states": False},
    "nothing_known": {"rounds": None, "shown": ONCE, "states": False},
    "poisson": {"rounds": POISSON, "participation": Participation("poisson", 0.3)},
    "fixed_size": {"rounds": FIXED, "participation": Participation("fixed_size", 0.3)},
    "matrix": {
        "rounds": ONCE,
        "participation": Participation("none", client_rounds=1),
        "correlation": Toeplitz((1.0, 0.5), ROUNDS),
        "noise": _matrix_noise,
    },
    "trees": {
        "rounds": ONCE,
        "participation": Participation("none", client_rounds=1),
        "correlation": Trees(ROUNDS),
        "noise": _tree_noise,
    },
}


def _aggregates(shown, noise):
    """The noised mean of each round's clients, and of the canaries that are included in it."""
    random = np.random.default_rng(17)
    rows = random.normal(size=(ROUNDS, POOL.dim)) if noise is None else noise(random)
    for number, row in enumerate(rows, start=1):
        there = [c for c in np.flatnonzero(POOL.included) if number in shown[c]]
        sent = sum((CLIP * POOL.vector(int(canary)) for canary in there), np.zeros(POOL.dim))
        yield number, ((sent + CLIP * NOISE * row) / COHORT).astype(np.float32)


def make_log(
    path, rounds, *, shown=None, participation=None, states=True, correlation=None, noise=None
):
    """A log of `RoundScorer`."""
    scorer = RoundScorer.create(
        path, POOL, ROUNDS, rounds, participation=participation, noise_correlation=correlation
    )
    stated = {"noise_stddev": CLIP * NOISE / COHORT, "norm_bound": CLIP * 60 / COHORT}
    for number, aggregate in _aggregates(shown or rounds, noise):
        scorer.score_round(
            number, aggregate, canary_length=CLIP / COHORT, **(stated if states else {})
        )
    scorer.finish()
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", LOG)
def test_a_log_of_a_scorer(tmp_path, capsys, name):
    walk_log(caller(capsys), make_log(tmp_path / "log", **LOG[name]), tmp_path / "page.html")


@pytest.mark.slow
def test_a_log_of_another_system(tmp_path, capsys):
    folder = LogFolder(tmp_path / "log")
    folder.aggregates.mkdir(parents=True)
    write_pool(folder.pool, POOL)
    for number, aggregate in _aggregates(ONCE, None):
        np.save(folder.aggregates / f"round_{number}.npy", aggregate)
    walk_log(caller(capsys), folder.path, tmp_path / "page.html")


# Score files.


def _scores(path, included, score):
    rows = [f"{at},{int(coin)},{score[at]!r}" for at, coin in enumerate(included)]
    path.write_text("\n".join(["canary_id,included,score", *rows]) + "\n")
    return path


@pytest.mark.parametrize("options", [(), ("--dim", "400", "--canaries", "rademacher")])
def test_a_score_file(tmp_path, capsys, options):
    say, random = caller(capsys), np.random.default_rng(5)
    included = random.random(200) < 0.5
    score = random.normal(0, 1 / 20, 200) + 0.02 * included  # a Gaussian mechanism of mu 0.4
    path = _scores(tmp_path / "scores.csv", included, score.tolist())
    for claim, outcomes in ((3.0, ("inconclusive",)), (0.001, ("inconclusive", "contradicted"))):
        arguments = ("estimate", path, "--delta", "1e-3", "--claimed-epsilon", claim, *options)
        said = say(*arguments, "--json")
        outcome = said.json()["verdict"]["outcome"]
        assert outcome in outcomes
        assert said.status == (3 if outcome == "contradicted" else 0)
        assert f"verdict: {outcome.upper()}" in say(*arguments).out
    for command in ("show", "verify", "release", "compare"):
        more = {"release": ("--out", tmp_path / "page.html"), "compare": (path,)}.get(command, ())
        assert say(command, path, *more).status == 2


def test_a_score_file_of_members_alone(tmp_path, capsys):
    path = _scores(tmp_path / "scores.csv", [True] * 30, np.linspace(0, 1, 30).tolist())
    said = caller(capsys)("estimate", path, "--delta", "1e-3")
    assert said.status == 2
    assert "excluded" in said.err
