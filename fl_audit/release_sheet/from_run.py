"""The release sheet of a finished run, from its report and its operator's statements.

Each line names its evidence: recorded by the run, computed by accounting, measured by the audit, or
stated by the operator. Fields without any are "not stated".
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from fl_audit.accounting import Accounting, FullGuarantee, noise_distribution_named
from fl_audit.accounting.guarantee import ACCOUNTANT_TITLES
from fl_audit.accounting.skellam import SKELLAM
from fl_audit.config import Config, ReleaseStatement
from fl_audit.config.commitment import read_try
from fl_audit.config.file import parse_tables
from fl_audit.config_tables.kinds import Table
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.round_chain import read_chain
from fl_audit.formats.run_record import RunRecord
from fl_audit.formats.text_files import read_toml
from fl_audit.number_words import count, delta_text, lower_bound_text, significant, upper_bound_text
from fl_audit.participation.schedule import client_rounds
from fl_audit.release_sheet.selection import SweepRuns
from fl_audit.release_sheet.sheet import NOT_AUDITED, Line, ReleaseSheet, laid_out
from fl_audit.report.checks import canary_check_words, checks_words, failed_checks, title_of_check
from fl_audit.report.headline import headline, reason_sentences
from fl_audit.report.report import ATTACKERS, Checks, Report
from fl_audit.report.tables import attacker_risks, mu_words, profile_words, rho_words
from fl_audit.report.words import mechanism_words, rounds_done
from fl_audit.verdict import Verdict
from fl_audit.verdict.sentences import NEXT, claim_clause, detectable_words
from fl_audit.verification import Verified

STATED = "stated by the operator"
COMPUTED = "computed from run.json"
RECORDED = "recorded by the run"
CONFIGURED = "from the config"


@dataclass(frozen=True)
class Provenance:
    """The evidence of a sheet.

    Attributes:
      folder: The name of the run's folder.
      verified: The verification of the folder for this sheet, without findings.
      link: The last link of the run's chain.
      commitment: The SHA-256 of the run's commitment; None without one.
    """

    folder: str
    verified: Verified
    link: str
    commitment: str | None = None


def read_provenance(folder: RunFolder, verified: Verified) -> Provenance:
    """The evidence of a verified run.

    Raises:
      InputError: A file cannot be read.
    """
    commitment = None
    if folder.commitment.exists():
        commitment = read_try(folder).digest
    link = read_chain(folder.chain).lines[-1].link
    return Provenance(folder.path.resolve().name, verified, link, commitment)


class _StatementFile(Table, frozen=True):
    """A file of the operator's statements."""

    release: ReleaseStatement


def read_statement(path: Path) -> ReleaseStatement:
    """Reads an operator's statements, the table [release] of a TOML file.

    Raises:
      InputError: The file is not TOML, or has another table or key.
    """
    return parse_tables(read_toml(path), _StatementFile, str(path)).release


def sheet_of_run(
    report: Report,
    statement: ReleaseStatement,
    provenance: Provenance,
    sweep: SweepRuns | None = None,
) -> ReleaseSheet:
    """The release sheet of a finished run; `sweep` is None if no sweep is known to contain it.

    Raises:
      InputError: The report is of scores alone.
    """
    run, config, analytical = report.run, report.config, report.analytical
    if run is None or config is None or analytical is None:
        raise InputError("a release sheet needs the report of a run, not of scores alone")
    lines = {
        **_evidence(run, provenance),
        **_release(run, statement),
        **_protection(run, config, analytical, statement),
        **_guarantee(report, run, analytical, statement),
        "accesses": list(_noised(run)),
        "unprotected": list(_not_noised(run, statement)),
        "earlier_runs": [*_runs_of(sweep), *_stated(statement.earlier_runs)],
        "selection": list(_selection(sweep)),
        **_audit(report),
        "risks": _risks(statement),
        **_provenance(report, run, config),
    }
    day = run.finished.partition("T")[0]
    return laid_out(
        statement.name or f"{run.task}, run {provenance.folder}",
        f"Filled by fl-audit {report.fl_audit_version} from a run"
        + (f" that was finished on {day}" if day else ""),
        lines,
    )


def _stated(text: str | None) -> list[Line]:
    return [] if text is None else [Line(text, STATED)]


def _release(run: RunRecord, statement: ReleaseStatement) -> dict[str, list[Line]]:
    model = f"A model of {run.dim:,} parameters after {rounds_done(run)} ({run.task})."
    return {
        "released": [Line(model, RECORDED), *_stated(statement.released)],
        "released_to": _stated(statement.released_to),
        "data": [
            Line(f"{count(run.num_clients, 'client')}.", RECORDED),
            *_stated(statement.data),
        ],
        "contact": _stated(statement.contact),
    }


def _protection(
    run: RunRecord, config: Config, analytical: Accounting, statement: ReleaseStatement
) -> dict[str, list[Line]]:
    relation = analytical.neighbours
    unit = "One client, with everything that it sends in all its rounds"
    return {
        "unit": [
            Line(f"{unit}.", COMPUTED),
            *(_stated(statement.unit) or [Line("What a client is: not stated.", "")]),
        ],
        "adjacency": [Line(f"{relation[0].upper()}{relation[1:]}.", COMPUTED)],
        "trust_model": _stated(statement.trust_model),
        "mechanism": [
            Line(mechanism_words(run, config.mechanism), CONFIGURED),
            *_noise_generator(run),
        ],
        "participation": [
            Line(
                client_rounds(
                    run, config.participation, config.dropouts.words if config.dropouts else ""
                ),
                CONFIGURED,
            )
        ],
    }


_GENERATORS = {"tensorflow-federated": "Philox4x32-10 (TFF)", "jax": "Threefry4x32-20 (JAX)"}
"""The generator of noise, by the recorded package of the engine."""


def _noise_generator(run: RunRecord) -> Iterator[Line]:
    """How noise was drawn, if there is any and the engine is known."""
    generator = next((text for name, text in _GENERATORS.items() if name in run.versions), None)
    noise = run.release.noise
    if generator is None or noise.noise_multiplier == 0:
        return
    normal = (
        ""
        if noise.distribution == SKELLAM.name
        else "; floating-point noise has known attacks (Mironov 2012); normal numbers end at 9.49 "
        "standard deviations"
    )
    yield Line(
        f"Noise: {generator}, keyed with 128 bits of the operating system's entropy; not "
        f"cryptographic{normal}.",
        RECORDED,
    )


# Claim, upper bound, curve, risk, accountant, assumptions.


def claim_words(verdict: Verdict | None) -> str:
    """The claim that was tested, in words."""
    if verdict is None:
        return "None, and nothing was tested."
    if not verdict.claim.is_stated:
        return f"None was stated. Tested instead, for a canary: {verdict.claim.words}."
    return f"For a {verdict.claim.whom}: {verdict.claim.words.removeprefix('the claim ')}."


def _guarantee(
    report: Report, run: RunRecord, analytical: Accounting, statement: ReleaseStatement
) -> dict[str, list[Line]]:
    dp_accounting = run.versions.get("dp-accounting", "of unknown version")
    return {
        "claim": [Line(claim_words(report.verdict), CONFIGURED)],
        "guarantee": [_upper_bound(analytical)],
        "curve": list(_curves(report)),
        "risk": list(_plain_risk(report)),
        "accountant": [
            Line(
                f"{', '.join(_accountants(analytical))}, by dp-accounting {dp_accounting} and "
                f"fl-audit {report.fl_audit_version}.",
                RECORDED,
            )
        ],
        "assumptions": list(_assumptions(report, run, analytical, statement)),
    }


def _accountants(analytical: Accounting) -> dict[str, None]:
    """The titles of the accountants that give an epsilon for a client, in order."""
    known = [by for by in analytical.client.by_accountant if by.epsilon is not None]
    return dict.fromkeys(
        ACCOUNTANT_TITLES.get(by.accountant, by.accountant)
        for by in known or analytical.client.by_accountant
    )


def _upper_bound(analytical: Accounting) -> Line:
    client = analytical.client
    if client.epsilon is None:
        return Line(f"None known: {client.by_accountant[0].reason}.", COMPUTED)
    rounds = client.participations
    often = "" if rounds is None else f", which participates in up to {count(rounds, 'round')}"
    return Line(
        f"ε ≤ {upper_bound_text(client.epsilon)} at δ = {delta_text(analytical.delta)} for a "
        f"client{often}.",
        COMPUTED,
    )


def _against(report: Report) -> dict[str, FullGuarantee]:
    """The privacy curves of a client by attacker; one if they are equal."""
    full = {
        name: against.in_full.client
        for name, against in report.attackers.items()
        if against.in_full is not None
    }
    if len(set(full.values())) == 1:
        return {"Any attacker": next(iter(full.values()))}
    return {ATTACKERS[name].capitalize(): guarantees for name, guarantees in full.items()}


def _curves(report: Report) -> Iterator[Line]:
    for attacker, full in _against(report).items():
        if full.mu is None and not full.profile:
            yield Line(f"{attacker}: {full.unknown}.", COMPUTED)
            continue
        yield Line(
            f"{attacker}: μ {mu_words(full)} (Gaussian DP); ρ {rho_words(full)} (zCDP); "
            f"ε at δ: {profile_words(full)}.",
            COMPUTED,
        )


def _plain_risk(report: Report) -> Iterator[Line]:
    for attacker, full in _against(report).items():
        if not full.found:
            yield Line(f"{attacker}: no bound on the true positive rate.", COMPUTED)
            continue
        shares = (
            f"at most {upper_bound_text(100 * at.true_positive_rate)} % at "
            f"{100 * at.false_positive_rate:g} % false positives"
            for at in full.found
        )
        yield Line(f"{attacker}: true positive rate {', '.join(shares)}.", COMPUTED)


def _assumptions(
    report: Report, run: RunRecord, analytical: Accounting, statement: ReleaseStatement
) -> Iterator[Line]:
    """Each assumption of accounting with the evidence for it."""
    distribution = noise_distribution_named(run.release.noise.distribution)
    for index, text in enumerate(analytical.assumes):
        if text == distribution.noise_assumption:
            yield Line(text, _noise_evidence(report.checks))
        elif text in distribution.release_assumptions:
            yield Line(text, "by construction of the accountant")
        elif index == 0:
            yield Line(text, NOT_AUDITED)
        else:
            yield Line(text, "recorded for this run; production not audited")
    yield from _stated(statement.assumptions)


def _noise_evidence(checks: Checks | None) -> str:
    if checks is None or not checks.results:
        return NOT_AUDITED
    if failed := failed_checks(checks):
        return f"checks of the aggregates FAILED: {', '.join(failed)}"
    return f"measured: {len(checks.results)} checks of the aggregates passed; floating point not"


# Accesses to the data.


def _noised(run: RunRecord) -> Iterator[Line]:
    participants = significant(run.release.denominator.expected)
    yield Line(
        f"{rounds_done(run)}: the sum of clipped updates of about {participants} participants a "
        "round.",
        "recorded; counted by the accountant",
    )
    if run.release.noise.count_noise_stddev:
        yield Line(
            "In each round the number of updates below the clip norm, which moves it.",
            "recorded; counted by the accountant",
        )


def _not_noised(run: RunRecord, statement: ReleaseStatement) -> Iterator[Line]:
    uncounted = "recorded; NOT counted by the accountant"
    yield Line("Each round's number and mean loss of participants (metrics.csv).", uncounted)
    yield Line(
        f"Accuracy: {run.accuracy_description}. Whether that data is clients' is not known here.",
        uncounted,
    )
    if run.release.zeroing == "adaptive":
        yield Line("The quantile of updates above which they are zeroed.", uncounted)
    yield from _stated(statement.metrics) or [
        Line("Which of these numbers leave the operator's hands: not stated.", "")
    ]


def _runs_of(sweep: SweepRuns | None) -> Iterator[Line]:
    if sweep is None:
        return
    unfinished = f", {sweep.num_begun} more begun" if sweep.num_begun else ""
    yield Line(
        f"This run is one of {sweep.num_runs} of a sweep, {sweep.num_recorded} of them trained"
        f"{unfinished}. Each read the data.",
        "recorded in sweep.json",
    )


def _selection(sweep: SweepRuns | None) -> Iterator[Line]:
    """The privacy cost of a sweep, and of private selection with the same effort."""
    if sweep is None or sweep.price is None:
        yield Line(
            "No sweep was found around the run; others are the operator's to state.",
            "looked for in the folder",
        )
        return
    price = sweep.price
    if price.composed is None:
        yield Line(f"Not known: {price.unknown}.", COMPUTED)
        return
    begun = sweep.num_begun
    not_counted = f" Not counted: {count(begun, 'run')} without a record." if begun else ""
    yield Line(
        f"What holds: composition of all {count(price.num_runs, 'trained run')}, ε ≤ "
        f"{upper_bound_text(price.composed)} at δ = {delta_text(price.delta)} for a client."
        f"{not_counted}",
        COMPUTED,
    )
    would = "not known" if price.if_drawn is None else f"ε ≤ {upper_bound_text(price.if_drawn)}"
    yield Line(
        "The bound for private selection (Papernot & Steinke 2022, theorem 2; Liu & Talwar 2019) "
        "does NOT cover this sweep: the number of runs was fixed by the grid, not drawn at random "
        f"and kept secret. Drawn (geometric, mean {price.num_runs}; settings drawn anew each time; "
        f"only the best run released), it would have given {would}.",
        COMPUTED,
    )


# Results of the audit.


def _audit(report: Report) -> dict[str, list[Line]]:
    """The lines of what was measured; none for the rest."""
    verdict, answer = report.verdict, headline(report)
    lines: dict[str, list[Line]] = {}
    if verdict is not None:
        title = f"{verdict.outcome.upper()}{claim_clause(verdict)}."
        tests = f"measured: {count(verdict.num_tests, 'test')}, together at "
        sentences = " ".join(s for s in reason_sentences(verdict) if not s.startswith(NEXT))
        lines["verdict"] = [Line(f"{title} {sentences}", f"{tests}{100 * verdict.confidence:g} %")]
        lines["detectable"] = [_detectable(verdict)]
    if answer.lower_bound is not None:
        lines["bound"] = [
            Line(
                f"ε ≥ {lower_bound_text(answer.lower_bound.epsilon)} for a canary, "
                f"{answer.lower_bound_if}; threat model {answer.threat_model or 'not known'} (the "
                f"attacker has {answer.sees or 'an unknown part'}).",
                f"measured: {report.num_canaries:,} canaries, "
                f"{100 * report.confidence:g} % confidence",
            )
        ]
    lines["attack"] = list(_attack(report))
    if report.canary_check is not None:
        words = canary_check_words(report.canary_check)
        lines["arrival"] = [Line(f"{words[0].upper()}{words[1:]}.", "measured in the aggregates")]
    if report.checks is not None and report.checks.results:
        titles = ", ".join(title_of_check(check.name) for check in report.checks.results)
        words = checks_words(report.checks)
        sentence = f"{words[0].upper()}{words[1:]} ({titles})."
        lines["checks"] = [Line(sentence, "measured on the aggregates")]
    lines["edpb"] = [
        Line(
            "Resistance to attacks: membership inference was tested, as above; attribute "
            "inference, exfiltration, regurgitation, model inversion and reconstruction were not. "
            "The upper bound limits what any of them adds about one client. Whether the model is "
            "anonymous is not decided here.",
            "by threat models of this audit",
        )
    ]
    return lines


def _detectable(verdict: Verdict) -> Line:
    """The smallest detectable violation; for a curve, also its noise multiplier."""
    if verdict.power is None:
        return Line(f"Not simulated, as the claim is {verdict.outcome} already.", NOT_AUDITED)
    words = detectable_words(verdict.detectable_epsilon)
    curve = verdict.detectable
    noise = None if curve is None else curve.noise_multiplier
    less = "" if noise is None else f", or a noise multiplier of {significant(noise)} or less"
    how = "simulated" if curve is None else "computed"
    words = f"{words[0].upper()}{words[1:]}".removesuffix(",")
    return Line(f"{words}{less}.", f"{how}, 80 % power")


def _attack(report: Report) -> Iterator[Line]:
    """Each attacker's measured true positive rate, with its upper bound."""
    for risk in attacker_risks(report):
        if risk.attack is None or not risk.risks:
            continue
        row = risk.risks[0]
        yield Line(
            f"{risk.title} ({risk.attack}), false positive rate {row.false_alarms}: true positive "
            f"rate {row.rate_found} for included canaries; upper bound {row.canary}.",
            f"measured, {100 * report.confidence:g} % interval; bound computed",
        )


# Risks, evidence, provenance.


def _risks(statement: ReleaseStatement) -> list[Line]:
    return [
        *_stated(statement.risks),
        Line(
            "A lower bound proves no privacy: another attack may find more than this audit's "
            "canaries, which are random vectors.",
            "a limit of every audit",
        ),
        Line(
            "The guarantee is for one unit. Whoever is k of them (devices, accounts) has k times μ "
            "(Dong, Roth & Su 2019, theorem 2.14).",
            "group privacy",
        ),
        Line(
            "Side channels (timing, logs, who can read the run's folder), key management and the "
            "collection of the data.",
            NOT_AUDITED,
        ),
    ]


def _evidence(run: RunRecord, provenance: Provenance) -> dict[str, list[Line]]:
    """The verification, and the digests that bind the sheet to one model and one run."""
    verified = provenance.verified
    if verified.held:
        words = "All that the verdict rests on was computed again from logs and models: equal."
    else:
        words = (
            "Nothing is wrong, but not everything could be computed again; covered by the chain "
            f"alone: {', '.join(verified.not_made_again)}."
        )
    commitment = Line("None was made before training.", RECORDED)
    if provenance.commitment is not None:
        commitment = Line(
            f"Made before training; SHA-256 {provenance.commitment}.",
            "the first line of the chain; compare what was published",
        )
    return {
        "verified": [Line(words, "fl-audit verify, run for this sheet")],
        "model": [
            Line(f"SHA-256 of its parameters: {run.model_sha256}.", "computed from model.npz")
        ],
        "chain": [Line(f"Last link {provenance.link}.", "chain.jsonl; printed as the run ended")],
        "commitment": [commitment],
        "check": [
            Line(
                "Whoever is given the run's folder, which has numbers without noise: fl-audit "
                "verify FOLDER --commitment FILE --model FILE.",
                "docs/verify.md",
            )
        ],
    }


def _provenance(report: Report, run: RunRecord, config: Config) -> dict[str, list[Line]]:
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    return {
        "versions": [
            Line(f"{versions}; reported by fl-audit {report.fl_audit_version}.", RECORDED)
        ],
        "sources": [Line("The run's folder.", "its digests are in the chain")],
        "seed": [Line(f"Seed {config.seed}. {_schedule_words(run)}".strip(), CONFIGURED)],
    }


def _schedule_words(run: RunRecord) -> str:
    """A sentence on the secret of a sampled schedule, followed by a space; else nothing."""
    match run.schedule_secret:
        case None:
            return ""
        case "run":
            return "Rounds are drawn from a secret of this run, which is in its folder alone. "
        case "config":
            return (
                "Rounds are drawn from a secret that the config names: bounds that count on "
                "sampling hold only while it is unknown. "
            )


def statement_of(config: Config | None, given: ReleaseStatement | None) -> ReleaseStatement:
    """The given statements, completed by those of the config."""
    own = ReleaseStatement()
    if config is not None and isinstance(config.release, ReleaseStatement):
        own = config.release
    if given is None:
        return own
    stated = {key: getattr(given, key) for key in given.__struct_fields__}
    return msgspec.structs.replace(
        own, **{k: text for k, text in stated.items() if text is not None}
    )
