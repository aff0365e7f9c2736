"""What somebody may do to a run of several own rounds, to its model, its sheet and its logs.

Forgers here know the program: they write the report anew from what they changed, and every link of
the chain. Each attack is found, and the file that it is in is named.
"""

import json
import shutil

import numpy as np
import pytest

from fl_audit.attacks import CanaryPool, RoundScorer
from fl_audit.cli import main
from fl_audit.formats.folders import LogFolder, RunFolder
from fl_audit.formats.model_file import model_digest
from fl_audit.formats.participation_files import Participation, write_participation
from fl_audit.formats.round_chain import Logged, Saved, Scored
from fl_audit.release_sheet.compare_sheets import verify_sheet
from fl_audit.verification import verify_folder
from tests.verification.toy_runs import (
    committed_run,
    edit,
    edit_cell,
    edit_json,
    relink,
    report_again,
    reseal,
    scores_again,
)

OVERRIDES = (
    'participation.canaries="once_per_epoch"',
    "participation.rounds=18",
    "canaries.count=16",
    "task.dim=300",
    'audit.threat_models=["final", "final_and_initial", "all_iterates", "known_rounds"]',
)


@pytest.fixture(scope="module")
def committed(toy_runtime, tmp_path_factory):
    """A run of canaries in three rounds each, beside its commitment and its release sheet."""
    folder = tmp_path_factory.mktemp("attacked")
    run = committed_run(folder, *OVERRIDES)
    assert main(["release", str(run), "--out", str(folder / "sheet.html")]) == 0
    return folder


# Scores, and what is known of vectors.


def _scaled_scores(name, factor):
    def attack(run):
        path = run / f"scores_{name}.csv"
        for row in range(1, 17):
            if path.read_text().splitlines()[row].split(",")[1] == "1":
                edit_cell(path, row, 2, lambda score: repr(float(score) * factor))
        report_again(run)

    return attack


def _one_score(name, row, change):
    def attack(run):
        edit_cell(run / f"scores_{name}.csv", row, 2, change)
        report_again(run)

    return attack


def _known(name, change):
    def attack(run):
        edit_json(run / "concentrations.json", "statistics", name, value=change)
        report_again(run)

    return attack


def _arrays(name, change, again=report_again):
    """Changes the arrays of an NPZ file, or the one of an NPY file."""

    def attack(run):
        path = run / name
        if path.suffix == ".npz":
            with np.load(path) as file:
                arrays = dict(file)
            np.savez(path, **change(arrays))
        else:
            np.save(path, change(np.load(path)))
        again(run)

    return attack


def _with_spike(arrays):
    worst = arrays["worst"].copy()
    worst[:, 0] += 2.0
    return {**arrays, "worst": worst}


def _with_alike_rounds(arrays):
    products = np.full_like(arrays["products"], 0.5)
    np.fill_diagonal(products, 1.0)
    return {**arrays, "products": products}


def _longer(arrays):
    return {**arrays, "products": 1.2 * arrays["products"]}


def _without(name):
    def attack(run):
        (run / name).unlink()
        reseal(run)

    return attack


SCORES = {
    **{
        f"scaled_{name}": (_scaled_scores(name, 0.6), f"scores_{name}.csv")
        for name in ("final", "final_minus_initial", "max", "sum", "own_rounds")
    },
    "raised": (_scaled_scores("own_rounds", 1.5), "scores_own_rounds.csv"),
    "nearly": (_scaled_scores("own_rounds", 0.99), "scores_own_rounds.csv"),
    "one_score": (_one_score("own_rounds", 3, lambda _: "0.01"), "scores_own_rounds.csv"),
    "one_sign": (
        _one_score("final_minus_initial", 5, lambda score: repr(-float(score))),
        "scores_final_minus_initial.csv",
    ),
    "scale_of_the_sum": (_known("sum", lambda one: {**one, "scale": 2.0}), "concentrations.json"),
    "limit_of_own_rounds": (
        _known("own_rounds", lambda one: {**one, "is_limit": True}),
        "concentrations.json",
    ),
    "nothing_known_of_final": (
        _known("final", lambda one: {**one, "vectors": [{"count": 1, "concentration": None}]}),
        "concentrations.json",
    ),
    "more_vectors_behind_max": (
        _known("max", lambda one: {**one, "vectors": [{**one["vectors"][0], "count": 99}]}),
        "concentrations.json",
    ),
    "directions_alike": (
        _arrays("kept_directions.npz", _with_alike_rounds),
        "scores_own_rounds.csv",
    ),
    "directions_longer": (_arrays("kept_directions.npz", _longer), "kept_directions.npz"),
    "directions_with_a_spike": (
        _arrays("kept_directions.npz", _with_spike),
        "kept_directions.npz",
    ),
    "directions_gone": (_without("kept_directions.npz"), "scores_own_rounds.csv"),
    "sum_of_directions": (
        _arrays("direction_sum_sum_000018.npy", lambda total: 2 * total),
        "direction_sum_sum_000018.npy",
    ),
    "cosines": (
        _arrays("round_cosines.npy", lambda rows: rows[::-1], lambda run: reseal(run, rows=True)),
        "scores_own_rounds.csv",
    ),
}


# The model.


def _other(arrays):
    return {name: array + np.float32(0.001) for name, array in arrays.items()}


def _model_and_digest(run, *, scores=False):
    with np.load(run / "model.npz") as file:
        arrays = _other(dict(file))
    np.savez(run / "model.npz", **arrays)
    digest = model_digest(arrays.values())
    edit_json(run / "run.json", "model_sha256", value=lambda _: digest)
    if scores:
        scores_again(run)
    report_again(run)


def _column(name, value):
    """Changes a column of metrics.csv, and writes scores, report and every link anew."""

    def attack(run):
        path = run / "metrics.csv"
        column = path.read_text().split("\n", 1)[0].split(",").index(name)
        for row in range(1, 19):
            edit_cell(path, row, column, value)
        scores_again(run)
        report_again(run, rows=True)

    return attack


MODEL = {
    "model": (_arrays("model.npz", _other), "run.json"),
    "model_and_digest": (_model_and_digest, "scores_final.csv"),
    "model_and_scores": (lambda run: _model_and_digest(run, scores=True), "model.npz"),
    "longer_aggregates": (
        _column("aggregate_norm", lambda norm: f"{1.5 * float(norm):.9g}"),
        "model.npz",
    ),
    "more_clients": (_column("num_clients", lambda n: str(int(n) + 3)), "metrics.csv"),
    "fewer_canaries": (_column("num_canaries", lambda n: "0"), "metrics.csv"),
    "smaller_clip_norm": (_column("clip_norm", lambda _: "0.25"), "metrics.csv"),
    "initial_model": (_arrays("initial_model.npz", _other), "scores_final_minus_initial.csv"),
    "digest": (
        lambda run: (
            edit_json(run / "run.json", "model_sha256", value=lambda _: "0" * 64),
            report_again(run),
        ),
        "run.json",
    ),
    "model_gone": (_without("model.npz"), "model.npz"),
    "model_empty": (lambda run: ((run / "model.npz").write_bytes(b""), reseal(run)), "model.npz"),
}


# Config, inputs, coins, record.


def _config(old, new):
    def attack(run):
        edit(run / "config.toml", old, new)
        report_again(run)

    return attack


def _json(name, *keys, value):
    def attack(run):
        edit_json(run / name, *keys, value=value)
        report_again(run)

    return attack


def _coin(run):
    for name in ("canaries.csv", *(path.name for path in run.glob("scores_*.csv"))):
        edit_cell(run / name, 4, 1, lambda coin: str(1 - int(coin)))
    report_again(run)


RECORD = {
    "claim": (_config("claimed_epsilon = 20.0", "claimed_epsilon = 30.0"), "config.toml"),
    "method": (_config('"threshold_valid"', '"one_run_valid"'), "config.toml"),
    "statistic": (_config('statistic = "own_rounds"', 'statistic = "final"'), "config.toml"),
    "noise": (_config("noise_multiplier = 0.5", "noise_multiplier = 1.5"), "config.toml"),
    "data": (_json("inputs.json", "data", value=lambda _: "0" * 64), "inputs.json"),
    "examples": (_json("inputs.json", "examples", value=lambda n: n + 1), "inputs.json"),
    "clients": (_json("inputs.json", "clients", value=lambda n: n + 1), "run.json"),
    "inputs_gone": (_without("inputs.json"), "inputs.json"),
    "coin": (_coin, "canaries.csv"),
    "accuracy": (_json("run.json", "accuracy", value=lambda _: 0.99), "run.json"),
    "delta": (_json("run.json", "delta", value=lambda _: 1e-2), "run.json"),
    "included": (_json("run.json", "num_included", value=lambda n: n - 1), "run.json"),
    "nonce": (
        _json("commitment.json.opening", "nonce", value=lambda _: "0" * 64),
        "commitment.json.opening",
    ),
    "another_try": (_json("commitment.json", "number", value=lambda _: 2), "commitment.json"),
    "commitment_gone": (_without("commitment.json"), "commitment.json"),
    "commitment_empty": (
        lambda run: ((run / "commitment.json").write_text(""), reseal(run)),
        "commitment.json",
    ),
}


# Reports and added files, which are sealed again as they are.


def _reported(*keys, value):
    def attack(run):
        edit_json(run / "report.json", *keys, value=value)
        reseal(run)

    return attack


def _added(name, content="{}"):
    return lambda run: (run / name).write_text(content)


REPORT = {
    "outcome": (_reported("verdict", "outcome", value=lambda _: "consistent!"), "report.json"),
    "bound": (_reported("verdict", "epsilon_lower", value=lambda e: e / 2), "report.json"),
    "reason": (_reported("verdict", "reason", value=lambda _: "all is well"), "report.json"),
    "claim_tested": (_reported("verdict", "claim", "epsilon", value=lambda _: 9.0), "report.json"),
    "guarantee": (_reported("analytical_epsilon", value=lambda e: e / 2), "report.json"),
    "canary_check": (_reported("arrival", "state", value=lambda _: "arrived!"), "report.json"),
    "digest_reported": (_reported("model_sha256", value=lambda _: "0" * 64), "report.json"),
    "page": (lambda run: (edit(run / "report.html", "20", "21"), reseal(run)), "report.html"),
    "scores_added": (
        lambda run: shutil.copy(run / "scores_max.csv", run / "scores_mine.csv"),
        "scores_mine.csv",
    ),
    "replay_added": (_added("replay.json"), "replay.json"),
    "uploads_added": (_added("upload_cosines.npy"), "upload_cosines.npy"),
    "round_left_out": (
        lambda run: relink(run, lambda ls: [one for one in ls if getattr(one, "round", 0) != 4]),
        "chain.jsonl",
    ),
    "last_rounds_left_out": (
        lambda run: relink(
            run, lambda ls: [one for one in ls if not (isinstance(one, Logged) and one.round > 15)]
        ),
        "chain.jsonl",
    ),
    "checkpoint_of_another_round": (
        lambda run: relink(
            run,
            lambda ls: [
                Saved(rounds=one.rounds + 1, files=one.files) if isinstance(one, Saved) else one
                for one in ls
            ],
        ),
        "chain.jsonl",
    ),
    "scores_left_out": (
        lambda run: relink(run, lambda ls: [one for one in ls if not isinstance(one, Scored)]),
        "chain.jsonl",
    ),
    "chain_gone": (lambda run: (run / "chain.jsonl").unlink(), "chain.jsonl"),
    "report_gone": (_without("report.json"), "report.json"),
}

ATTACKS = {
    f"{of}_{name}": attack
    for of, attacks in (("s", SCORES), ("m", MODEL), ("c", RECORD), ("r", REPORT))
    for name, attack in attacks.items()
}
_QUICK = {"s_scaled_own_rounds", "s_directions_alike", "m_model", "m_model_and_digest", "c_data"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in _QUICK else pytest.mark.slow) for name in ATTACKS],
)
def test_an_attack_is_found_and_named(committed, tmp_path, name):
    attack, file = ATTACKS[name]
    run = tmp_path / "run"
    shutil.copytree(committed / "run", run)
    attack(run)
    verified = verify_folder(run, committed / "commitment.json")
    assert verified.outcome == ("partly" if name == "s_directions_gone" else "broken")
    named = {finding.file for finding in verified.findings} | set(verified.not_made_again)
    assert file in named, list(map(str, verified.findings))


def test_there_are_enough_attacks():
    assert len(ATTACKS) >= 50


# Files beside the folder.


def _permuted(model):
    return model[::-1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda model: model, None),
        (_permuted, "is another model than the run trained"),
        (lambda model: model * np.float32(1.0001), "is another model than the run trained"),
        (lambda model: model[:-1], "holds no model whose variables have 300 parameters"),
        (lambda model: np.stack([model, model]), "holds no model whose variables have 300"),
    ],
)
def test_another_model_is_found(committed, tmp_path, change, words):
    with np.load(committed / "run" / "model.npz") as file:
        (model,) = file.values()
    np.save(tmp_path / "released.npy", change(model))
    verified = verify_folder(committed / "run", model=tmp_path / "released.npy")
    found = [one.what for one in verified.findings if one.file == "released.npy"]
    assert [words in one for one in found] == [True] * len(found)
    assert bool(found) == (words is not None)


SHEET = {
    "verdict": ("Verdict on the claim", "CONS", "CERT"),
    "guarantee": ("Upper bound from accounting", "ε ≤ ", "ε ≤ 0"),
    "model": ("Model", "parameters: ", "parameters: 0"),
    "chain": ("Chain of the run", "Last link ", "Last link 0"),
    "commitment": ("Commitment", "SHA-256 ", "SHA-256 0"),
    "verified": ("Verification", "All that", "More than"),
    "bound": ("Lower bound", "ε ≥ ", "ε ≥ 0"),
    "unprotected": ("Not noised", "NOT counted", "counted"),
    "contact": ("", "Contact", "Contact"),
}


PAGE = {
    "paragraph": ("</header>", "<p>Approved by the board.</p></header>"),
    "hidden_row": ("<tr>\n", '<tr style="display:none">\n'),
    "subtitle": ("Filled by", "Approved by"),
    "operator's_verdict": (
        '<th scope="row">Verdict on the claim</th>',
        '<th scope="row">Verdict on the claim</th><td>CERTIFIED</td><td class="evidence">stated by '
        'the operator</td></tr><tr class="next"><th scope="row"></th>',
    ),
}


@pytest.mark.parametrize("name", PAGE)
def test_what_is_beside_the_rows_of_a_sheet_is_found(committed, tmp_path, name):
    old, new = PAGE[name]
    text, sheet = (committed / "sheet.html").read_text(), tmp_path / "sheet.html"
    assert old in text
    sheet.write_text(text.replace(old, new, 1))
    verified = verify_sheet(sheet, RunFolder(committed / "run"), verify_folder(committed / "run"))
    assert {one.file for one in verified.findings} == {"sheet.html"}


@pytest.mark.parametrize("name", SHEET)
def test_an_edited_sheet_is_found(committed, tmp_path, capsys, name):
    label, old, new = SHEET[name]
    sheet = tmp_path / "sheet.html"
    shutil.copy(committed / "sheet.html", sheet)
    at = sheet.read_text().index(f'<th scope="row">{label}')
    before, after = sheet.read_text()[:at], sheet.read_text()[at:]
    if name == "verdict":
        old = next(word for word in ("CONSISTENT", "INCONCLUSIVE", "CONTRADICTED") if word in after)
    assert old in after
    sheet.write_text(before + after.replace(old, new, 1))
    status = main(["verify", str(committed / "run"), "--sheet", str(sheet), "--json"])
    found = json.loads(capsys.readouterr().out)["findings"]
    assert status == (0 if name == "contact" else 1)
    assert {one["file"] for one in found} == (set() if name == "contact" else {"sheet.html"})
    assert all(f"`{label}`" in one["what"] for one in found)


# Logs.


@pytest.mark.parametrize("name", ["participation.json", "noise_correlation.json"])
def test_what_describes_a_log_and_appears_later_is_found(tmp_path, name):
    pool = CanaryPool(seed=3, count=20, dim=200)
    scorer = RoundScorer.create(tmp_path / "log", pool, 3, [[1 + j % 3] for j in range(20)])
    for number in (1, 2, 3):
        scorer.score_round(number, np.random.default_rng(number).normal(size=200))
    scorer.finish()
    folder = LogFolder(tmp_path / "log")
    assert verify_folder(folder.path).held
    if name == "participation.json":
        write_participation(folder.participation, Participation("none", client_rounds=1))
    else:
        folder.noise_correlation.write_text("{}")
    found = [str(one) for one in verify_folder(folder.path).findings]
    assert f"{name}: was added later: the chain does not know it" in found
