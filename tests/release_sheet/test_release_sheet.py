"""The release sheet of a run: every field with its evidence, and nothing that nobody said."""

import dataclasses
import hashlib
import json
import shutil
import tomllib

import msgspec
import pytest
import tomli_w

from fl_audit.accounting import Denominator, Noise, Party, PoissonSampling, Release
from fl_audit.accounting.upper_bounds import upper_bounds
from fl_audit.canaries.canary_tables import Canaries, ExampleCanaries
from fl_audit.checks.check import compared
from fl_audit.cli import main
from fl_audit.comparison import read_report
from fl_audit.config import (
    GaussianAdaptive,
    GaussianFixed,
    NoPrivacy,
    ReleaseStatement,
)
from fl_audit.config.file import config_to_toml, parse_config
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.round_chain import read_chain
from fl_audit.number_words import delta_text
from fl_audit.release_sheet.from_run import (
    Provenance,
    read_statement,
    sheet_of_run,
    statement_of,
)
from fl_audit.release_sheet.registry_entry import Parameters, parameters_of
from fl_audit.release_sheet.sheet import (
    LAYOUT,
    NOT_AUDITED,
    NOT_STATED,
    render_sheet,
)
from fl_audit.release_sheet.sweep_price import sweep_around
from fl_audit.report import write_report
from fl_audit.verdict.record import Outcome
from tests.release_sheet.registry_schema import errors, read_schema, schema_path
from tests.report.conftest import CONFIG, fill, noise_of
from tests.verification.toy_runs import committed_run

STATED = {
    "released_to": "Everybody.",
    "unit": "A phone.",
    "trust_model": "The server is trusted.",
    "contact": "privacy@example.org",
}
SILENT = {"released_to", "contact", "trust_model", "earlier_runs"}
"""The fields of which only the operator can say anything."""


@pytest.fixture(scope="module")
def claimed(tmp_path_factory) -> RunFolder:
    """A run that claims a small epsilon, with its report."""
    folder = fill(RunFolder(tmp_path_factory.mktemp("claimed")))
    audit = {**CONFIG["audit"], "claimed_epsilon": 0.5}
    audit["threat_models"] = [*audit["threat_models"], "known_rounds"]
    config = parse_config({**CONFIG, "audit": audit}, "config")
    folder.config.write_text(config_to_toml(config))
    rows = folder.canaries.read_text().splitlines()
    rounds = [
        f"{row}{index % 40 + 1}" if row.endswith(",") else row for index, row in enumerate(rows)
    ]
    folder.canaries.write_text("\n".join(rounds) + "\n")
    write_report(folder)
    return folder


HELD = Provenance("a run", (), "0f" * 32)


def sheet_of(folder, statement=None, sweep=None):
    return sheet_of_run(read_report(folder), statement or ReleaseStatement(), HELD, sweep)


def texts(sheet, key):
    return " ".join(line.text for line in sheet.lines[key])


def test_every_field_has_a_line_and_every_line_its_evidence(claimed):
    sheet = sheet_of(claimed)
    assert list(sheet.lines) == [key for fields in LAYOUT.values() for key in fields]
    for key, lines in sheet.lines.items():
        assert lines
        for line in lines:
            is_silent = NOT_STATED in line.text or "operator has to state" in line.text
            assert line.evidence or is_silent, (key, line.text)


def test_what_only_the_operator_can_say_is_not_stated_until_it_is(claimed):
    silent = sheet_of(claimed)
    for key in SILENT:
        assert [line.text for line in silent.lines[key]] == [NOT_STATED]
    spoken = sheet_of(claimed, ReleaseStatement(**STATED))
    for key, text in STATED.items():
        (line,) = [line for line in spoken.lines[key] if line.evidence == "stated by the operator"]
        assert line.text == text
    assert texts(spoken, "earlier_runs") == NOT_STATED


def test_claim_verdict_and_detectable_violation_are_the_reports(claimed):
    report, sheet = read_report(claimed), sheet_of(claimed)
    assert report.verdict is not None
    assert texts(sheet, "claim") == f"For a client: ε ≤ 0.5 at δ = {delta_text(report.delta)}."
    assert texts(sheet, "verdict").startswith(f"{report.verdict.outcome.upper()}: the claim ")
    assert report.verdict.power is None
    for outcome, basis, words in (
        ("contradicted", "parts", "Not simulated, as the claim is contradicted "),
        ("inconclusive", "scores", "Not simulated, as the verdict "),
        ("inconclusive", "parts", "Audits like this notice a true ε of 9.9 or more."),
    ):
        ended = dataclasses.replace(
            report.verdict, outcome=Outcome(outcome), basis=basis, detectable_epsilon=9.9
        )
        found = sheet_of_run(dataclasses.replace(report, verdict=ended), ReleaseStatement(), HELD)
        assert texts(found, "detectable").startswith(words)
    simulated = dataclasses.replace(report.verdict, power=0.9, detectable_epsilon=1.23)
    again = sheet_of_run(dataclasses.replace(report, verdict=simulated), ReleaseStatement(), HELD)
    assert texts(again, "detectable") == "Audits like this notice a true ε of 1.3 or more."


def test_the_evidence_of_verdict_and_arrival_is_what_was_looked_at(claimed):
    report = read_report(claimed)
    for basis, how in (
        ("accounting", "computed from run.json"),
        ("scores", "measured: 10 tests, together at 95 %"),
    ):
        verdict = dataclasses.replace(report.verdict, basis=basis)
        sheet = sheet_of_run(dataclasses.replace(report, verdict=verdict), ReleaseStatement(), HELD)
        assert sheet.lines["verdict"][0].evidence.startswith(how)
    for num_scored, how in ((7, "measured in the aggregates"), (None, "measured by scores")):
        check = dataclasses.replace(report.canary_check, num_scored=num_scored)
        sheet = sheet_of_run(
            dataclasses.replace(report, canary_check=check), ReleaseStatement(), HELD
        )
        assert sheet.lines["arrival"][0].evidence == how


@pytest.mark.parametrize(
    ("number", "canaries", "words"),
    [
        (300, Canaries(count=300), "canaries, which are random vectors."),
        (300, ExampleCanaries(source="random", count=300), "canaries, which hold examples."),
        (0, Canaries(count=0), "There are no canaries: nothing was tried against the model."),
    ],
)
def test_the_limit_of_the_audit_is_that_of_its_canaries(claimed, number, canaries, words):
    report = read_report(claimed)
    run = dataclasses.replace(report.run, num_canaries=number)
    config = msgspec.structs.replace(report.config, canaries=canaries)
    sheet = sheet_of_run(
        dataclasses.replace(report, run=run, config=config), ReleaseStatement(), HELD
    )
    assert sheet.lines["risks"][0].text.endswith(words)


def test_the_guarantee_is_that_of_accounting(claimed):
    # Four rounds of a client at noise 0.3: mu = 2 / 0.3, rho = mu^2 / 2.
    sheet = sheet_of(claimed)
    assert "μ 6.67 (Gaussian DP); ρ 22.3 (zCDP)" in texts(sheet, "curve")
    assert "up to 4 rounds" in texts(sheet, "guarantee")
    assert texts(sheet, "accountant").startswith("Rényi DP, ")


def test_the_sheet_names_the_generator_of_noise_if_the_engine_is_known(claimed):
    def noise_line(versions, **noise):
        run = report.run
        release = run.release.with_noise(dataclasses.replace(run.release.noise, **noise))
        run = dataclasses.replace(run, versions=versions, release=release)
        sheet = sheet_of_run(dataclasses.replace(report, run=run), ReleaseStatement(), HELD)
        return [line for line in sheet.lines["mechanism"] if line.text.startswith("Noise: ")]

    report = read_report(claimed)
    (line,) = noise_line({"tensorflow-federated": "0.87.0"})
    assert line.text == (
        "Noise: Philox4x32-10 (TFF), keyed with 128 bits of the operating system's entropy; not "
        "cryptographic; floating-point noise has known attacks (Mironov 2012); normal numbers end "
        "at 9.49 standard deviations."
    )
    assert line.evidence == "recorded by the run"
    (line,) = noise_line({"jax": "0.8.0"})
    assert "Threefry4x32-20 (JAX)" in line.text
    (line,) = noise_line({"jax": "0.8.0"}, distribution="skellam")
    assert line.text.endswith("not cryptographic.")
    assert noise_line({"numpy": "1.25.2"}) == []


def test_each_assumption_says_who_checked_it(claimed):
    report, sheet = read_report(claimed), sheet_of(claimed)
    lines = sheet.lines["assumptions"]
    assert [line.text for line in lines] == list(report.analytical.assumes)
    assert lines[0].evidence == NOT_AUDITED
    assert "checks of the aggregates" in lines[-1].evidence
    assert "production not audited" in lines[1].evidence
    unmade = [dataclasses.replace(check, is_conclusive=False) for check in report.checks.results]
    for made, evidence in ((1, "measured: 1 check of the aggregates passed; "), (0, NOT_AUDITED)):
        results = (*report.checks.results[:made], *unmade[made:])
        checks = dataclasses.replace(report.checks, results=results)
        changed = dataclasses.replace(report, checks=checks)
        lines = sheet_of_run(changed, ReleaseStatement(), HELD).lines["assumptions"]
        assert lines[-1].evidence.startswith(evidence)


def test_only_checks_of_the_aggregates_and_of_noise_are_evidence_of_noise(claimed):
    report = read_report(claimed)
    of_noise = next(check for check in report.checks.results if check.detectable_ratio)
    replay = compared("replay_noise", "as stated", "as stated", detectable_ratio=0.5)
    cohorts = compared("once_a_round", "once", "once")
    bounded = dataclasses.replace(of_noise, name="bounded_length", detectable_ratio=None)
    blind = dataclasses.replace(of_noise, detectable_ratio=0.0)
    for results, evidence in (
        ((of_noise, bounded, replay, cohorts), "measured: 2 checks of the aggregates passed; "),
        ((replay, cohorts), NOT_AUDITED),
        ((bounded, cohorts), NOT_AUDITED),
        ((blind, bounded), NOT_AUDITED),
    ):
        checks = dataclasses.replace(report.checks, results=results)
        changed = dataclasses.replace(report, checks=checks)
        lines = sheet_of_run(changed, ReleaseStatement(), HELD).lines["assumptions"]
        assert lines[-1].evidence.startswith(evidence)


@pytest.mark.parametrize(
    ("mechanism", "noise", "noised", "raw"),
    [
        (
            GaussianFixed(noise_multiplier=0.3, clip_norm=1.0),
            Noise("gaussian", 0.3, 0.3),
            ["clipped"],
            [],
        ),
        (
            GaussianAdaptive(noise_multiplier=0.3),
            noise_of(0.3),
            ["clipped", "below the clip norm"],
            [],
        ),
        (
            GaussianAdaptive(noise_multiplier=0.0),
            Noise("gaussian", 0.0, 0.0),
            [],
            ["clipped", "below the clip norm"],
        ),
        (NoPrivacy(canary_norm=1.0), Noise("gaussian", 0.0, 0.0), [], ["the sum of updates of"]),
    ],
)
def test_only_what_is_noised_is_accounted_for(claimed, mechanism, noise, noised, raw):
    report = read_report(claimed)
    run = dataclasses.replace(report.run, release=report.run.release.with_noise(noise))
    config = msgspec.structs.replace(report.config, mechanism=mechanism)
    changed = dataclasses.replace(report, run=run, config=config)
    sheet = sheet_of_run(changed, ReleaseStatement(), HELD)
    accesses = [line for line in sheet.lines["accesses"] if not line.text.startswith("None")]
    bare = [line for line in sheet.lines["unprotected"] if "NOT counted" in line.evidence]
    assert len(accesses) == len(noised) and len(bare) == len(raw) + 2
    for words, line in zip([*noised, *raw], [*accesses, *bare[: len(raw)]], strict=True):
        assert words in line.text
        assert ("; counted by the accountant" in line.evidence) == (line in accesses)


def test_without_canaries_no_attack_was_tested(claimed):
    report = read_report(claimed)
    (line,) = sheet_of(claimed).lines["edpb"]
    assert "membership inference was tested, as above" in line.text
    bare = dataclasses.replace(report, statistics={}, verdict=None, efficiency={})
    (line,) = sheet_of_run(bare, ReleaseStatement(), HELD).lines["edpb"]
    assert "membership inference, attribute inference" in line.text
    assert "reconstruction were not tested" in line.text
    assert line.evidence == NOT_AUDITED


def test_a_run_of_a_sweep_says_what_all_runs_cost(claimed, tmp_path):
    runs = tmp_path / "runs"
    for name in ("a", "b", "c", "begun"):
        shutil.copytree(claimed.path, runs / name)
    RunFolder(runs / "begun").record.unlink()
    # The list lacks one run, and has one whose folder was removed.
    listed = [{"name": name} for name in ("a", "b", "begun", "planned")]
    listed.append({"name": "removed", "state": "finished"})
    (tmp_path / "sweep.json").write_text(json.dumps({"runs": listed}))
    sweep = sweep_around(runs / "a", 1e-3)
    assert sweep is not None
    assert (sweep.num_runs, sweep.num_recorded, sweep.num_begun) == (6, 3, 2)
    sheet = sheet_of(RunFolder(runs / "a"), sweep=sweep)
    assert "one of a sweep's 6 runs; 3 were trained, and 2 more begun" in texts(
        sheet, "earlier_runs"
    )
    holds, published = sheet.lines["selection"]
    assert "By composition of 3 trained runs" in holds.text
    assert "Not counted: 2 runs without a record" in holds.text
    assert "does NOT cover this sweep" in published.text
    assert sweep_around(claimed.path, 1e-3) is None


def test_the_page_has_all_of_it_and_escapes_what_is_stated(claimed):
    html = render_sheet(sheet_of(claimed, ReleaseStatement(contact="<b>x</b>")))
    for fields in LAYOUT.values():
        assert all(label in html for label in fields.values())
    assert "&lt;b&gt;x&lt;/b&gt;" in html
    assert "@page { size: A4" in html
    assert "http" not in html.replace("https://", "").split("<style>")[0]


def test_a_sheet_says_first_what_it_rests_on(claimed):
    sheet = sheet_of(claimed)
    assert next(iter(LAYOUT)) == "Evidence"
    assert "computed again from logs and models: equal" in texts(sheet, "verified")
    assert HELD.link in texts(sheet, "chain")
    assert texts(sheet, "commitment") == "None was made before training."
    left = ("run.json", "scores_final_loss.csv")
    report, commitment = read_report(claimed), "ab" * 32
    by = Provenance("a run", left, "0f" * 32, commitment)
    sheet = sheet_of_run(report, ReleaseStatement(), by)
    assert "the chain of digests: run.json, scores_final_loss.csv." in texts(sheet, "verified")
    assert "were not computed again" in sheet.lines["guarantee"][0].evidence
    (line,) = sheet.lines["commitment"]
    assert commitment in line.text


# The command, which verifies the run first.


@pytest.fixture(scope="module")
def committed(toy_runtime, tmp_path_factory):
    """A run of a NumPy engine under a commitment, beside it."""
    return committed_run(tmp_path_factory.mktemp("committed"))


def test_the_command_writes_a_page_and_a_model_card_and_prints_one_object(
    committed, tmp_path, capsys
):
    statement = tmp_path / "statement.toml"
    statement.write_text(tomli_w.dumps({"release": STATED}))
    out, card = tmp_path / "sheet.html", tmp_path / "card.md"
    published = committed.parent / "commitment.json"
    words = ["release", str(committed), "--out", str(out), "--statement", str(statement)]
    words += ["--commitment", str(published), "--model-card", str(card)]
    assert main(words) == 0
    printed = f"verification: held\nrelease sheet: {out}\nmodel card: {card}\n"
    assert capsys.readouterr().out == printed
    record = json.loads((committed / "run.json").read_text())
    for text in (out.read_text(), card.read_text()):
        assert record["model_sha256"] in text
        assert read_chain(committed / "chain.jsonl").lines[-1].link in text
    assert "privacy@example.org" in out.read_text()
    assert hashlib.sha256(published.read_bytes()).hexdigest() in out.read_text()
    assert card.read_text().startswith("---\ntags: [")
    assert main([*words, "--json"]) == 0
    entry = json.loads(capsys.readouterr().out)
    assert entry["deployment"]["privacy_loss"]["privacy_unit"] == "A phone."
    if (schema := schema_path()) is not None:
        assert list(errors(entry, read_schema(schema))) == []


@pytest.mark.parametrize(("name", "status"), [("run.json", 1), ("report.json", 2)])
def test_there_is_no_sheet_of_a_damaged_folder(committed, tmp_path, capsys, name, status):
    """More damages, of each file, are tried in tests/verification/test_manipulations.py."""
    folder, out = tmp_path / "run", tmp_path / "sheet.html"
    shutil.copytree(committed, folder)
    (folder / name).unlink()
    assert main(["release", str(folder), "--out", str(out)]) == status
    said = capsys.readouterr()
    assert (name in said.err, said.out, out.exists()) == (True, "", False)


def test_a_statement_names_model_and_chain(committed, tmp_path, capsys):
    out = tmp_path / "statement.json"
    model = str(committed / "model.npz")
    assert main(["verify", str(committed), "--model", model, "--statement", str(out)]) == 0
    made = json.loads(out.read_text())
    assert made["_type"] == "https://in-toto.io/Statement/v1"
    record = json.loads((committed / "run.json").read_text())
    digests = {one["name"]: one["digest"]["sha256"] for one in made["subject"]}
    assert digests["model"] == record["model_sha256"]
    assert digests["chain.jsonl"] == read_chain(committed / "chain.jsonl").lines[-1].link
    report = json.loads((committed / "report.json").read_text())
    predicate = made["predicate"]
    assert predicate["verification"]["outcome"] == "held"
    assert predicate["claim"] == report["verdict"]["claim"]
    assert predicate["verdict"]["outcome"] == report["verdict"]["outcome"]
    assert predicate["guarantees"]["epsilon"] == report["analytical"]["client"]["epsilon"]
    capsys.readouterr()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[release]\nunits = "x"', "unknown key `release.units`; did you mean 'unit'?"),
        ('[releases]\nunit = "x"', "unknown key `releases`; did you mean 'release'?"),
        ("[release]\nunit = 3", "key `release.unit`"),
        ("", "section [release] is missing"),
    ],
)
def test_a_statement_that_cannot_be_read_is_refused_in_a_line(tmp_path, text, words):
    path = tmp_path / "statement.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"statement\.toml") as refused:
        read_statement(path)
    assert words in str(refused.value)


def test_a_folder_without_a_finished_run_is_refused(tmp_path, capsys):
    assert main(["release", str(tmp_path), "--out", str(tmp_path / "x.html")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "x.html").exists()
    assert main(["release", str(tmp_path)]) == 2
    assert "--out, --model-card or --json" in capsys.readouterr().err


def test_the_configs_statement_fills_what_is_not_given_apart(tmp_path):
    said = {"unit": "A phone.", "contact": "me"}
    config = parse_config({**CONFIG, "release": said}, "config")
    assert statement_of(config, None).unit == "A phone."
    both = statement_of(config, ReleaseStatement(unit="A person."))
    assert (both.unit, both.contact) == ("A person.", "me")
    assert statement_of(None, None) == ReleaseStatement()
    again = tomllib.loads(config_to_toml(config))
    assert again["release"] == said
    assert "release" not in tomllib.loads(config_to_toml(parse_config(CONFIG, "config")))


def test_a_registry_knows_the_notion_by_its_parameters():
    assert Parameters().variant is None
    assert Parameters(epsilon=1.0, delta=1e-5).variant == "Approximate DP"
    assert Parameters(epsilon=1.0, delta=1e-5, rho=0.1).variant == "Zero-concentrated DP"


def test_an_epsilon_that_counts_on_sampling_has_no_rho_of_who_knows_the_rounds(claimed):
    report = read_report(claimed)
    fixed = parameters_of(report)
    assert fixed.variant == "Zero-concentrated DP" and fixed.rho == fixed.mu**2 / 2
    noise, cohort = Noise("gaussian", 1.0, 1.0), Denominator("expected_cohort", 10.0)
    party = Party(PoissonSampling(0.1))
    sampled = Release(rounds=4, noise=noise, denominator=cohort, client=party, canary=party)
    bounds = upper_bounds(sampled, 1e-5)
    attackers = {str(name): both for name, both in bounds.attackers.items()}
    report = dataclasses.replace(report, analytical=bounds.accounting, attackers=attackers)
    assert parameters_of(report) == Parameters(bounds.accounting.client.epsilon, 1e-5)
