"""The release sheet of a finished run, from its report and its operator's statements.

Each line names its evidence: recorded by the run, computed by accounting, measured by the audit, or
stated by the operator. A field without a line is "not stated" or "not audited".
"""

import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from fl_audit.accounting import (
    Accounting,
    FixedSizeSampling,
    FullGuarantee,
    noise_distribution_named,
)
from fl_audit.accounting.guarantee import ACCOUNTANT_TITLES
from fl_audit.accounting.skellam import SKELLAM
from fl_audit.accounting.upper_bounds import Attacker
from fl_audit.canaries.canary_tables import Canaries, ExampleCanaries
from fl_audit.config import Config, ReleaseStatement
from fl_audit.config.file import parse_tables
from fl_audit.config.tries import read_try
from fl_audit.config_tables.kinds import RecordedTable, Table
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.round_chain import read_chain
from fl_audit.formats.run_record import RunRecord
from fl_audit.formats.text_files import read_toml
from fl_audit.mechanisms import MECHANISMS, Mechanism, NoPrivacy
from fl_audit.number_words import count, delta_text, lower_bound_text, significant, upper_bound_text
from fl_audit.participation.schedule import client_rounds
from fl_audit.release_sheet.sheet import (
    KEY_OF_STATED,
    LABELS,
    NOT_AUDITED,
    Line,
    ReleaseSheet,
    laid_out,
)
from fl_audit.release_sheet.sweep_price import SweepRuns
from fl_audit.report.checks import canary_check_words, checks_words, failed_checks, title_of_check
from fl_audit.report.headline import headline
from fl_audit.report.report import Checks, Report
from fl_audit.report.shown_records import (
    attacker_risks,
    most_detected,
    mu_words,
    profile_words,
    rho_words,
)
from fl_audit.report.verdict_words import reason_sentences
from fl_audit.report.words import mechanism_words, rounds_done
from fl_audit.verdict import Verdict
from fl_audit.verdict.record import Outcome
from fl_audit.verdict.sentences import NEXT, claim_clause, detectable_words
from fl_audit.verification import Verified

STATED = "stated by the operator"
COMPUTED = "computed from run.json"
RECORDED = "recorded by the run"
CONFIGURED = "from the config"


@dataclass(frozen=True)
class Provenance:
    """The run's folder and the digests that a sheet names as evidence.

    Attributes:
      folder: The name of the run's folder.
      not_made_again: The files that the verification for this sheet, which has no findings, could
        not recompute.
      link: The last link of the run's chain.
      commitment: The SHA-256 of the run's commitment; None without one.
    """

    folder: str
    not_made_again: tuple[str, ...]
    link: str
    commitment: str | None = None


def read_provenance(folder: RunFolder, verified: Verified) -> Provenance:
    """The `Provenance` of a verified run's sheet."""
    commitment = read_try(folder).digest if folder.commitment.exists() else None
    link = read_chain(folder.chain).lines[-1].link
    not_made_again = tuple(verified.not_made_again)
    return Provenance(folder.path.resolve().name, not_made_again, link, commitment)


class _StatementFile(Table, frozen=True):
    """A file of the operator's statements."""

    release: ReleaseStatement


def read_statement(path: Path) -> ReleaseStatement:
    """Reads an operator's statements, the table [release] of a TOML file."""
    return parse_tables(read_toml(path), _StatementFile, str(path)).release


Stated = tuple[str, str, str]
"""A field's key, a statement, and its evidence."""


def sheet_of_run(
    report: Report,
    statement: ReleaseStatement,
    provenance: Provenance,
    sweep: SweepRuns | None = None,
) -> ReleaseSheet:
    """The release sheet of a finished run; `sweep` is the sweep that contains the run, if any."""
    run, config, analytical = report.run, report.config, report.analytical
    if run is None or config is None or analytical is None:
        raise InputError("a release sheet needs the report of a run, not of scores alone")
    lines: dict[str, list[Line]] = {}
    for key, text, evidence in itertools.chain(
        _evidence(run, provenance),
        _release(run, config, analytical),
        _guarantee(report, run, analytical),
        _accesses(run, config.mechanism),
        _selection(sweep),
        _audit(report),
        _by_operator(statement),
        _risks(run.num_canaries, config.canaries),
        _provenance(report, run, config),
    ):
        is_less = evidence == COMPUTED and "run.json" in provenance.not_made_again
        how = f"{evidence}, whose noise and rounds were not computed again" if is_less else evidence
        lines.setdefault(key, []).append(Line(text, how))
    day = run.finished.partition("T")[0]
    return laid_out(
        statement.name or f"{run.task}, run {provenance.folder}",
        f"Filled by fl-audit {report.fl_audit_version} from a run"
        + (f" that was finished on {day}" if day else ""),
        lines,
    )


def _by_operator(statement: ReleaseStatement) -> Iterator[Stated]:
    """The operator's statements, and a note where unit or metrics are not stated."""
    missing = {
        "unit": "What a client is: not stated.",
        "metrics": "Which of these numbers leave the operator's hands: not stated.",
    }
    for name in ReleaseStatement.__struct_fields__:
        text, key = getattr(statement, name), KEY_OF_STATED.get(name, name)
        if key not in LABELS:
            continue
        if text is not None:
            yield key, text, STATED
        elif name in missing:
            yield key, missing[name], ""


def _release(run: RunRecord, config: Config, analytical: Accounting) -> Iterator[Stated]:
    """The fields on the model, its data, and the protection of clients."""
    model = f"A model of {run.dim:,} parameters after {rounds_done(run)} ({run.task})."
    yield "released", model, RECORDED
    yield "data", f"{count(run.num_clients, 'client')}.", RECORDED
    yield "unit", "One client, with everything that it sends in all its rounds.", COMPUTED
    relation = analytical.neighbours
    yield "adjacency", f"{relation[0].upper()}{relation[1:]}.", COMPUTED
    yield "mechanism", mechanism_words(run, config.mechanism), CONFIGURED
    yield from _noise_generator(run)
    dropouts = config.dropouts.words if config.dropouts else ""
    yield "participation", client_rounds(run, config.participation, dropouts), CONFIGURED


_GENERATORS = {"tensorflow-federated": "Philox4x32-10 (TFF)", "jax": "Threefry4x32-20 (JAX)"}
"""The generator of noise, by the engine's package in the recorded versions."""


def _noise_generator(run: RunRecord) -> Iterator[Stated]:
    """The generator of noise, if there is noise and the engine's package is known."""
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
    text = (
        f"Noise: {generator}, keyed with 128 bits of the operating system's entropy; not "
        f"cryptographic{normal}."
    )
    yield "mechanism", text, RECORDED


# Claim, upper bound, curve, risk, accountant, assumptions.


def claim_words(verdict: Verdict | None) -> str:
    """The tested claim, in words."""
    if verdict is None:
        return "None, and nothing was tested."
    if not verdict.claim.is_stated:
        return f"None was stated. Tested instead, for a canary: {verdict.claim.words}."
    return f"For a {verdict.claim.whom}: {verdict.claim.words.removeprefix('the claim ')}."


def _guarantee(report: Report, run: RunRecord, analytical: Accounting) -> Iterator[Stated]:
    yield "claim", claim_words(report.verdict), CONFIGURED
    yield "guarantee", _upper_bound(analytical), COMPUTED
    for attacker, full in _against(report).items():
        yield "curve", f"{attacker}: {_curve(full)}.", COMPUTED
        yield "risk", f"{attacker}: {_plain_risk(full)}.", COMPUTED
    known = [by for by in analytical.client.by_accountant if by.epsilon is not None]
    accountants = dict.fromkeys(
        ACCOUNTANT_TITLES.get(by.accountant, by.accountant)
        for by in known or analytical.client.by_accountant
    )
    by = f"fl-audit {report.fl_audit_version}"
    if isinstance(run.release.client.sampling, FixedSizeSampling):
        by = f"dp-accounting {run.versions.get('dp-accounting', 'of unknown version')} and {by}"
    yield "accountant", f"{', '.join(accountants)}, by {by}.", RECORDED
    for index, text in enumerate(analytical.assumes):
        yield "assumptions", text, _who_checked(index, text, run, report.checks)


def _upper_bound(analytical: Accounting) -> str:
    client = analytical.client
    if client.epsilon is None:
        return f"None known: {client.by_accountant[0].reason}."
    rounds = client.participations
    often = "" if rounds is None else f", which participates in up to {count(rounds, 'round')}"
    bound = f"ε ≤ {upper_bound_text(client.epsilon)} at δ = {delta_text(analytical.delta)}"
    return f"{bound} for a client{often}."


def _against(report: Report) -> dict[str, FullGuarantee]:
    """A client's guarantees by attacker, in words; a single entry if all are equal."""
    full = {
        name: against.in_full.client
        for name, against in report.attackers.items()
        if against.in_full is not None
    }
    if len(set(full.values())) == 1:
        return {"Any attacker": next(iter(full.values()))}
    return {f"Attacker {Attacker(name).words}": guarantees for name, guarantees in full.items()}


def _curve(full: FullGuarantee) -> str:
    if full.mu is None and not full.profile:
        return str(full.unknown)
    curve = f"μ {mu_words(full)} (Gaussian DP); ρ {rho_words(full)} (zCDP)"
    return f"{curve}; ε at δ: {profile_words(full)}"


def _plain_risk(full: FullGuarantee) -> str:
    shares = (
        f"at most {upper_bound_text(100 * at.true_positive_rate)} % at "
        f"{100 * at.false_positive_rate:g} % false positives"
        for at in full.found
    )
    known = ", ".join(shares)
    return f"true positive rate {known}" if known else "no bound on the true positive rate"


def _who_checked(index: int, text: str, run: RunRecord, checks: Checks | None) -> str:
    """The evidence for an assumption of accounting; assumption 0 is about the attacker."""
    distribution = noise_distribution_named(run.release.noise.distribution)
    if text == distribution.noise_assumption:
        return _noise_evidence(checks)
    if text in distribution.release_assumptions:
        return "by construction of the accountant"
    return NOT_AUDITED if index == 0 else "recorded for this run; production not audited"


def _noise_evidence(checks: Checks | None) -> str:
    if checks is None:
        return NOT_AUDITED
    if failed := failed_checks(checks):
        return f"checks of the aggregates FAILED: {', '.join(failed)}"
    # Cohorts and replays are described by `measured`; they say nothing of the aggregates.
    made = [check for check in checks.results if check.was_made and check.measured is None]
    if not any(check.detectable_ratio for check in made):  # less noise would pass too
        return NOT_AUDITED
    passed = f"{count(len(made), 'check')} of the aggregates passed"
    return f"measured: {passed}; floating point not checked"


# Accesses to the data.


def _accesses(run: RunRecord, mechanism: Mechanism) -> Iterator[Stated]:
    participants = significant(run.release.denominator.expected)
    updates = "updates" if isinstance(mechanism, NoPrivacy) else "clipped updates"
    sums = f"the sum of {updates} of about {participants} participants a round"
    texts = [f"{rounds_done(run)}: {sums}."]
    if _counts_updates(run, mechanism):
        texts.append(
            "In each round the number of updates below the clip norm, which sets the next one."
        )
    if run.release.noise.noise_multiplier:
        for text in texts:
            yield "accesses", text, "recorded; counted by the accountant"
        texts = []
    else:
        yield "accesses", "None, because no noise is added.", RECORDED
    texts += [
        "Each round's number and mean loss of participants (metrics.csv).",
        f"Accuracy: {run.accuracy_description}. Whether that data is clients' is not known here.",
    ]
    if run.release.zeroing == "adaptive":
        texts.append("The quantile above which updates are zeroed.")
    for text in texts:
        yield "unprotected", text, "recorded; NOT counted by the accountant"


def _counts_updates(run: RunRecord, mechanism: Mechanism) -> bool:
    """Whether the server counts the updates below an adaptive clip norm."""
    noise = run.release.noise
    if isinstance(mechanism, RecordedTable):
        return noise.count_noise_stddev > 0
    rule = MECHANISMS.kind_of(mechanism).adaptive_clip
    return rule is not None and rule(mechanism, noise, run.release.denominator.expected) is not None


def _selection(sweep: SweepRuns | None) -> Iterator[Stated]:
    """A sweep's runs, their privacy cost, and the cost of as many runs by private selection."""
    if sweep is None:
        text = "No sweep was found around the run; the operator has to state other runs."
        yield "selection", text, "looked for in the folder"
        return
    unfinished = f", and {sweep.num_begun} more begun" if sweep.num_begun else ""
    yield (
        "earlier_runs",
        f"This run is one of a sweep's {count(sweep.num_runs, 'run')}; {sweep.num_recorded} "
        f"were trained{unfinished}. Each read the data.",
        "recorded in sweep.json",
    )
    price = sweep.price
    if price.composed is None:
        yield "selection", f"Not known: {price.unknown}.", COMPUTED
        return
    begun = sweep.num_begun
    not_counted = f" Not counted: {count(begun, 'run')} without a record." if begun else ""
    yield (
        "selection",
        f"By composition of {count(price.num_runs, 'trained run')}: ε ≤ "
        f"{upper_bound_text(price.composed)} at δ = {delta_text(price.delta)} for a client."
        f"{not_counted}",
        COMPUTED,
    )
    would = "not known" if price.if_drawn is None else f"ε ≤ {upper_bound_text(price.if_drawn)}"
    yield (
        "selection",
        "The bound for private selection (Papernot & Steinke 2022, theorem 2; Liu & Talwar 2019) "
        "does NOT cover this sweep: the number of runs was fixed by the grid, not drawn at random "
        f"and kept secret. With a drawn number (geometric, mean {price.num_runs}; settings drawn "
        f"anew each time; only the best run released) the bound would be {would}.",
        COMPUTED,
    )


# Results of the audit.


def _audit(report: Report) -> Iterator[Stated]:
    """The measurements of the audit."""
    verdict, answer = report.verdict, headline(report)
    sure = f"{100 * report.confidence:g} %"
    if verdict is not None:
        title = f"{verdict.outcome.upper()}{claim_clause(verdict)}."
        sentences = " ".join(s for s in reason_sentences(verdict) if not s.startswith(NEXT))
        tests = f"{count(verdict.num_tests, 'test')}, together at {100 * verdict.confidence:g} %"
        how = COMPUTED if verdict.basis == "accounting" else f"measured: {tests}"
        yield "verdict", f"{title} {sentences}", how
        yield _detectable(verdict)
    if answer.lower_bound is not None:
        yield (
            "bound",
            f"ε ≥ {lower_bound_text(answer.lower_bound.epsilon)} for a canary, "
            f"{answer.lower_bound_if}; threat model {answer.threat_model or 'not known'} (the "
            f"attacker has {answer.sees or 'an unknown part'}).",
            f"measured: {report.num_canaries:,} canaries, {sure} confidence",
        )
    for risk in attacker_risks(report):
        if risk.attack is not None and risk.rates:
            rate = risk.rates[0]
            yield (
                "attack",
                f"{risk.title} ({risk.attack}), false positive rate {100 * rate:g} %: true "
                f"positive rate {risk.found(rate)} for included canaries; upper bound "
                f"{most_detected(risk.curves.canary, rate)}.",
                f"measured, {sure} interval; bound computed",
            )
    yield from _arrival(report)
    if report.checks is not None and report.checks.results:
        titles = ", ".join(title_of_check(check.name) for check in report.checks.results)
        words = checks_words(report.checks)
        sentence = f"{words[0].upper()}{words[1:]} ({titles})."
        yield "checks", sentence, "measured on the aggregates"
    others = "attribute inference, exfiltration, regurgitation, model inversion and reconstruction"
    tested = f"membership inference was tested, as above; {others} were not"
    how = "by threat models of this audit"
    if not report.statistics:
        tested, how = f"membership inference, {others} were not tested", NOT_AUDITED
    yield (
        "edpb",
        f"Resistance to attacks: {tested}. "
        "The upper bound limits what any of them adds about one client. Whether the model is "
        "anonymous is not decided here.",
        how,
    )


def _arrival(report: Report) -> Iterator[Stated]:
    """The canary check, in the aggregates of canaries' rounds if their cosines were logged."""
    canary_check = report.canary_check
    if canary_check is None:
        return
    words, how = canary_check_words(canary_check), "measured in the aggregates"
    if canary_check.num_scored is None:
        how = "measured by scores" if report.num_canaries else NOT_AUDITED
    yield "arrival", f"{words[0].upper()}{words[1:]}.", how


def _detectable(verdict: Verdict) -> Stated:
    """The smallest detectable violation; for a curve, also its noise multiplier."""
    is_decided = verdict.outcome is Outcome.CONTRADICTED
    if verdict.power is None and (is_decided or verdict.basis != "parts"):
        why = "as the claim is contradicted already" if is_decided else "as the verdict explains"
        return "detectable", f"Not simulated, {why}.", NOT_AUDITED
    words = detectable_words(verdict.detectable_epsilon)
    curve = verdict.detectable
    noise = None if curve is None else curve.noise_multiplier
    less = "" if noise is None else f", or a noise multiplier of {significant(noise)} or less"
    how = "simulated" if curve is None else "computed"
    words = f"{words[0].upper()}{words[1:]}".removesuffix(",")
    return "detectable", f"{words}{less}.", f"{how}, 80 % power"


# Risks, evidence, provenance.


def _risks(num_canaries: int, canaries: object) -> Iterator[Stated]:
    """The limits of the audit and of the guarantee; `canaries` is the config's table."""
    which = ", which are random vectors" if isinstance(canaries, Canaries) else ""
    which = ", which hold examples" if isinstance(canaries, ExampleCanaries) else which
    limit = (
        "A lower bound proves no privacy: another attack may find more than this audit's "
        f"canaries{which}."
    )
    if not num_canaries:
        limit = "There are no canaries: nothing was tried against the model."
    yield "risks", limit, "a limit of every audit" if num_canaries else RECORDED
    yield (
        "risks",
        "The guarantee is for one unit. A person with k of them (devices, accounts) has k times μ "
        "(Dong, Roth & Su 2019, theorem 2.14).",
        "group privacy",
    )
    yield (
        "risks",
        "Side channels (timing, logs, who can read the run's folder), key management and the "
        "collection of the data.",
        NOT_AUDITED,
    )


_ALL_AGAIN = "All that the verdict rests on was computed again from logs and models: equal."
_NOT_AGAIN = (
    "Nothing is wrong, but not everything could be computed again; covered only by the chain of "
    "digests: "
)


def read_not_made_again(words: str, known: Collection[str]) -> tuple[str, ...] | None:
    """The files that a sheet's writer could not recompute, from the sheet's words.

    None unless these are the words of `_evidence` with some of the `known` names.
    """
    if words == _ALL_AGAIN:
        return ()
    names = tuple(words.removeprefix(_NOT_AGAIN).removesuffix(".").split(", "))
    is_as_written = words == f"{_NOT_AGAIN}{', '.join(names)}."
    return names if is_as_written and set(names) <= set(known) else None


def _evidence(run: RunRecord, provenance: Provenance) -> Iterator[Stated]:
    """The verification, and the digests that bind the sheet to one model and one run."""
    names = provenance.not_made_again
    words = f"{_NOT_AGAIN}{', '.join(names)}." if names else _ALL_AGAIN
    yield "verified", words, "fl-audit verify, run for this sheet"
    yield "model", f"SHA-256 of its parameters: {run.model_sha256}.", "computed from model.npz"
    yield "chain", f"Last link {provenance.link}.", "chain.jsonl; printed as the run ended"
    if provenance.commitment is None:
        yield "commitment", "None was made before training.", RECORDED
    else:
        yield (
            "commitment",
            f"The run began under the commitment with SHA-256 {provenance.commitment}.",
            "the first line of the chain; made before training if it was published by then",
        )
    committed = "" if provenance.commitment is None else "--commitment FILE "
    yield (
        "check",
        "Anyone with the run's folder, which has numbers without noise, can run: fl-audit verify "
        f"FOLDER {committed}--model FILE --sheet FILE (the last FILE is this page).",
        "docs/verify.md",
    )


def _provenance(report: Report, run: RunRecord, config: Config) -> Iterator[Stated]:
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    yield "versions", f"{versions}; reported by fl-audit {report.fl_audit_version}.", RECORDED
    yield "sources", "The run's folder.", "its digests are in the chain"
    rounds = {
        None: "",
        "run": " Rounds are drawn from a secret of this run, which is in its folder alone.",
        "config": " Rounds are drawn from a secret that the config names: bounds that count on "
        "sampling hold only while this secret is unknown.",
    }
    yield "seed", f"Seed {config.seed}.{rounds[run.schedule_secret]}", CONFIGURED


def statement_of(config: Config | None, given: ReleaseStatement | None) -> ReleaseStatement:
    """The given statements, with the config's where none is given."""
    own = ReleaseStatement()
    if config is not None and isinstance(config.release, ReleaseStatement):
        own = config.release
    if given is None:
        return own
    stated = {key: getattr(given, key) for key in given.__struct_fields__}
    return msgspec.structs.replace(
        own, **{k: text for k, text in stated.items() if text is not None}
    )
