"""Runs are planned, then trained: their lower bounds are where the plan says."""

import json

import pytest

from fl_audit.config.file import parse_config
from fl_audit.estimators import valid_methods
from fl_audit.pipeline.runs import start_run
from fl_audit.planning import make_plan

MATRIX = {"kind": "matrix_factorisation", "noise_multiplier": 0.6}
MECHANISMS = {
    "fixed": {"kind": "gaussian_fixed", "noise_multiplier": 0.4},
    "adaptive": {"kind": "gaussian_adaptive", "noise_multiplier": 0.4},
    "tree": {"kind": "tree_aggregation", "noise_multiplier": 0.6},
    "sqrt": {**MATRIX, "strategy": "sqrt"},
    "bands": {**MATRIX, "strategy": "banded_sqrt", "bands": 3},
    "blt": {**MATRIX, "strategy": "blt", "buffers": 2},
    "distributed": {"kind": "distributed", "noise_multiplier": 0.4},
    "client": {"kind": "client_gaussian", "noise_multiplier": 0.12},
}
PAIRS = [
    ("tree", {"kind": "shuffle"}),
    ("tree", {"kind": "min_separation", "separation": 3}),
    ("sqrt", {"kind": "balls_in_bins"}),
    ("bands", {"kind": "cyclic_poisson", "separation": 3}),
    ("blt", {"kind": "b_min_sep", "separation": 3}),
    ("distributed", {"kind": "shuffle"}),
    ("distributed", {"kind": "bernoulli"}),
    ("client", {"kind": "random_allocation"}),
    ("adaptive", {"kind": "uniform"}),
    ("fixed", {"kind": "b_min_sep", "separation": 3}),
]


@pytest.mark.slow
@pytest.mark.tff
def test_ten_runs_are_within_their_plans(tmp_path):
    """Each interval holds a run with 95 % or more; eight of ten are asked for."""
    within = []
    for at, (mechanism, pattern) in enumerate(PAIRS):
        table = {
            "seed": 10 + at,
            "task": {"kind": "digits", "num_clients": 120, "hidden": [96]},
            "mechanism": {**MECHANISMS[mechanism], "clip_norm": 0.5},
            "participation": {**pattern, "rounds": 24, "clients_per_round": 10},
            "canaries": {"count": 200, "family": "rademacher"},
            "audit": {"delta": 1e-3},
        }
        config = parse_config(table, "a pair")
        plan = make_plan(config)
        predicted = plan.of_strongest()[0].epsilons
        known = [name for name in valid_methods() if name in predicted]
        method = max(known, key=lambda name: predicted[name].median)
        start_run(config, tmp_path / f"run-{at}")
        report = json.loads((tmp_path / f"run-{at}" / "report.json").read_text())
        estimates = report["statistics"][plan.strongest.name]["estimates"]
        (found,) = (float(one["epsilon"]) for one in estimates if one["method"] == method)
        within.append(predicted[method].lower <= found <= predicted[method].upper)
    assert sum(within) >= 8, within
