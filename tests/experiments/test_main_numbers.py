"""A main number of each experiment, made again by its smallest part, as its page prints it.

`make experiments-small`, whose tables test_small_experiments compares, makes those of others.
"""

import doctest
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from experiment_pages import ROOT, page_rows, page_text, table_rows

from benchmarks import secret_rounds
from experiments.andrew2023_table1 import law
from experiments.broken_mechanisms import power
from experiments.coverage import run as coverage
from experiments.negoescu2024_appendix_b import run as gamma_losses
from experiments.steinke2023_training import run as steinke_training
from fl_audit.accounting import Accounting, PoissonSampling, account
from fl_audit.config import Canaries
from fl_audit.config.design import design_run
from fl_audit.config.file import load_config
from fl_audit.number_words import epsilon_text, upper_bound_text

Cells = list[str]


def accounted(config: str, num_clients: int, *settings: str) -> Accounting:
    """The upper bounds of an experiment's config, whose data are not read."""
    loaded = load_config(ROOT / "experiments" / config, list(settings))
    assert isinstance(loaded.canaries, Canaries)
    clients = [f"client {i}" for i in range(num_clients)]
    design = design_run(loaded, clients, loaded.canaries.count)
    return account(design.release, design.delta)


def andrew() -> Iterator[Cells]:
    random = np.random.default_rng(2023)
    sigma = law.sigma_of_epsilon(1.0, law.DELTA)
    cosines = law.sample_mean_cosine(sigma, law.DIM, law.CANARIES, 50, random)
    estimates = [
        law.epsilon_of_sigma(law.estimate_sigma([cosine], law.DIM), law.DELTA) for cosine in cosines
    ]
    yield ["1", f"{np.mean(estimates):.3f} ± {np.std(estimates):.3f}"]


def broken_mechanisms() -> Iterator[Cells]:
    random = np.random.default_rng(0)
    claim = power.epsilon_of_mu(power.MU, power.DELTA)
    bounds = [power._bounds(random, power.SIGNALS["correct"]) for _ in range(20)]
    yield ["(none)", *(f"{100 * share:.0f} %" for share in np.mean(np.array(bounds) > claim, 0))]


def coverage_of_bounds() -> Iterator[Cells]:
    randomised_response, *_ = coverage.mechanisms(0.5)
    yield from table_rows(coverage.row(randomised_response, 100, 200))


def negoescu() -> Iterator[Cells]:
    delta = 1e-5
    found = gamma_losses.estimates(3, 1000, delta, 10, seed=2024)
    truths = [gamma_losses.true_epsilon_star(3, delta, below) for below in (0, delta, 0.001)]
    moments = zip(found.mean(axis=0), found.std(axis=0), strict=True)
    estimates = [f"{mean:.2f} ± {deviation:.2f}" for mean, deviation in moments]
    yield ["1e-5", "3", "1000", *(f"{truth:.2f}" for truth in truths), *estimates]


def participation_patterns() -> Iterator[Cells]:
    poisson = [p for p in secret_rounds.SETTINGS if isinstance(p.sampling, PoissonSampling)]
    bounds = (f"{secret_rounds.upper_bound(pattern):.2f}" for pattern in poisson)
    yield ["`bernoulli` (Poisson)", *bounds]


def stackoverflow() -> Iterator[Cells]:
    for noise in ("0.0644", "0.2344"):
        found = accounted("stackoverflow/small.toml", 3000, f"mechanism.noise_multiplier={noise}")
        yield [noise, upper_bound_text(found.canary.epsilon)]


def steinke() -> Iterator[Cells]:
    (series,) = (
        one for one in steinke_training.all_series() if (one.figure, one.name) == (8, "mislabelled")
    )
    small = steinke_training.Series(8, series.name, series.axis, series.points[:1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steinke_training, "all_series", lambda: [small])
        rows = list(steinke_training.measure(6, []))
        yield from table_rows("".join(steinke_training.table(rows)))


ROWS: dict[str, Callable[[], Iterator[Cells]]] = {
    "andrew2023_table1": andrew,
    "broken_mechanisms": broken_mechanisms,
    "coverage": coverage_of_bounds,
    "negoescu2024_appendix_b": negoescu,
    "participation_patterns": participation_patterns,
    "stackoverflow": stackoverflow,
    "steinke2023_training": steinke,
}
"""The rows that a part of each experiment makes: a first cell, and others that follow it."""


@pytest.mark.parametrize("experiment", ROWS)
def test_rows_are_on_the_page(experiment):
    on_page = page_rows(experiment)
    made = list(ROWS[experiment]())
    missing = [row for row in made if not any(_holds(shown, row) for shown in on_page)]
    assert made and not missing


def _holds(shown: Cells, row: Cells) -> bool:
    """Whether a row of the page has the cells in this order, the first one first."""
    return shown[:1] == row[:1] and all(cell in rest for rest in [iter(shown)] for cell in row)


def shakespeare() -> str:
    found = accounted("shakespeare/config.toml", 299, "mechanism.noise_multiplier=0.02")
    client, canary = (f"{party.epsilon:,.0f}" for party in (found.client, found.canary))
    return f"Analytical ε with noise: {client} to a real client (5 rounds), {canary} to a canary"


def emnist() -> str:
    bounds = [
        epsilon_text(
            accounted(
                "emnist/small.toml", 300, f"mechanism.noise_multiplier={noise}"
            ).canary.epsilon
        )
        for noise in (0.1, 0.3)
    ]
    return f"ε ≤ {bounds[0]} at 0.1 and {bounds[1]} at 0.3"


@pytest.mark.parametrize(
    ("experiment", "words"), [("shakespeare", shakespeare), ("emnist", emnist)]
)
def test_words_are_on_the_page(experiment, words):
    assert words() in " ".join(page_text(experiment).split())


def test_the_example_on_the_page_of_steinkes_bounds():
    tests = doctest.DocTestParser().get_doctest(
        page_text("steinke2023_bounds"), {}, "page", None, 0
    )
    assert len(tests.examples) == 3
    assert doctest.DocTestRunner().run(tests).failed == 0


@pytest.mark.tff
def test_negoescu_without_noise(tmp_path):
    from dataclasses import replace

    from experiments.negoescu2024_figure_1 import run as figure_1
    from experiments.negoescu2024_figure_1.tasks import TASKS

    task = TASKS["breast cancer"]()
    members = figure_1.training_set(len(task.points))
    outputs = figure_1.trained(task, replace(task.recipe, epochs=1), members, tmp_path)
    made = figure_1._row(figure_1._measured("1 epoch", outputs, members, is_private=False))
    cells = [cell.strip().replace("%", " %") for cell in made.split(" | ")[1:]]
    assert ["breast cancer", "1 epoch", *cells] in page_rows("negoescu2024_figure_1")
