"""Recomputes a finished run's coins, rounds, record, report and page.

Coins and rounds are drawn again from the seed or secret; the noise follows from the config. Scores
and compared vectors (score_files.py) are recomputed from models and logs, the live test from logs.
The record follows from all these, and the report from everything; a report by other code may differ
in wording and lack JSON keys.
"""

import contextlib
import dataclasses
import html
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from fl_audit.canaries.canary_tables import coin_probability, family_of
from fl_audit.canaries.pool import draw_included
from fl_audit.config import Config
from fl_audit.config.design import RunDesign, design_run
from fl_audit.config.file import load_recorded
from fl_audit.config.inputs import input_files, read_recorded_inputs
from fl_audit.config_tables.kinds import RecordedTable
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.metrics_file import read_metrics
from fl_audit.formats.model_file import model_digest, natural_order
from fl_audit.formats.npy_file import read_arrays
from fl_audit.formats.participation_files import (
    CanaryRow,
    canaries_text,
    read_canaries,
    read_secret,
)
from fl_audit.formats.round_chain import Chain, Reported, Scored, digest_of
from fl_audit.formats.run_record import LiveRecord, RunRecord, read_record
from fl_audit.formats.text_files import read_foreign, read_json, read_toml, reading
from fl_audit.json_records import to_json
from fl_audit.participation.logged_cohorts import Replay, logged_clients
from fl_audit.report.build import build_report
from fl_audit.report.finished_run import FinishedRun, assembled_run
from fl_audit.report.page import page_of_run
from fl_audit.report.report import Report, report_to_json
from fl_audit.run.loop import LiveAudit
from fl_audit.tasks.facts import NumberedClients
from fl_audit.verification.findings import Difference, Verified, differences, first_difference
from fl_audit.verification.rounds import verify_aggregates, verify_metrics
from fl_audit.verification.score_files import RunScores
from fl_audit.version import __version__, code_digest


def verify_run(folder: RunFolder, chain: Chain | None, verified: Verified) -> None:
    """Recomputes the numbers of a finished run, and compares the run's files with them."""
    record = config = None
    with verified.reading(folder.record):
        record = read_record(folder)
    with verified.reading(folder.config):
        config = load_recorded(folder.config)
    if record is None or config is None:
        return
    _verify_texts(folder, verified)
    _verify_inputs(folder, config, record, verified)
    design = _design(config, record, folder, verified)
    pool = (
        _recorded_pool(folder, config, verified)
        if design is None
        else _pool(folder, design, verified)
    )
    if pool is None:
        return
    of_logs = RunScores(folder, config, record, pool)
    scores, compared = of_logs.verify(verified)
    with verified.reading(folder.record):
        record = _verify_record(of_logs, design, chain, verified)
    if any(statistic.name not in scores for statistic in of_logs.statistics):
        return
    with verified.reading(folder.report_json):
        run = assembled_run(
            folder, config=config, record=record, pool=pool, scores=scores, compared=compared
        )
        verify_aggregates(run, of_logs, verified)
        _verify_report(run, chain, verified)


def _verify_texts(folder: RunFolder, verified: Verified) -> None:
    """Finds keys that a file has twice, as readers may take either, and comments in the config."""
    known = (folder.commitment, folder.opening, folder.inputs, folder.record)
    for path in (*known, folder.compared_vectors, folder.replay, folder.report_json):
        objects: list[list[tuple[str, Any]]] = []
        # A file that cannot be read is found where its values are compared.
        with contextlib.suppress(OSError, ValueError, RecursionError):
            json.loads(read_foreign(path), object_pairs_hook=objects.append)
        counted = [Counter(key for key, _ in pairs) for pairs in objects]
        twice = [key for counter in counted for key, times in counter.items() if times > 1]
        for key in twice[:1]:
            verified.add(path, f"has the key {key!r} twice")
    with verified.reading(folder.config):
        values = read_toml(folder.config)
        if read_foreign(folder.config).decode().split() != tomli_w.dumps(values).split():
            verified.add(folder.config, "has other text than its keys and values")


def _verify_inputs(
    folder: RunFolder, config: Config, record: RunRecord, verified: Verified
) -> None:
    """Compares the recorded inputs with the record, and with existing input files.

    Data are not read. A replay must exist if and only if the config asks for one.
    """
    with verified.reading(folder.inputs):
        inputs = read_recorded_inputs(folder)
        for key, value in {"num_clients": inputs.clients, **inputs.task}.items():
            if (recorded := getattr(record, key, None)) != value:
                words = f"`{key}` is {recorded!r}, but {value!r} according to {folder.inputs.name}"
                verified.add(folder.record, words)
        most = getattr(config.task, "num_clients", record.num_clients)  # a task may leave some out
        if record.num_clients > most:
            verified.add(folder.record, f"`num_clients` is above the {most} of the config's task")
        if config.audit.replay != folder.replay.exists():
            lack, more = (
                "is missing: the config asks for it",
                "exists, but the config asks for none",
            )
            verified.add(folder.replay, lack if config.audit.replay else more)
        for key, path in input_files(config):
            if path.exists() and digest_of(path) != inputs.files.get(key):
                verified.add(path, f"has changed since the run read it as `{key}`")


# Coins, rounds and noise.


def _design(
    config: Config, record: RunRecord, folder: RunFolder, verified: Verified
) -> RunDesign | None:
    """The run as determined by config, seed and secret; None if its draws cannot be repeated."""
    why_not = _why_not_drawn(config, record, folder)
    if why_not is None:
        try:
            secret = (
                read_secret(folder.schedule_secret) if folder.schedule_secret.exists() else None
            )
            for clients in _client_names(config, record.num_clients):
                design = design_run(config, clients, record.num_canaries, secret)
                if not isinstance(config.participation, Replay) or _draws(design, folder):
                    return design
        except InputError as error:
            verified.add(folder.config, f"does not match {folder.record.name}: {error}")
            return None
        why_not = "the task's order of clients is not known"
    verified.note(f"rounds and noise are not drawn again from the seed: {why_not}")
    verified.not_made_again += [folder.canaries.name, folder.record.name]
    return None


def _why_not_drawn(config: Config, record: RunRecord, folder: RunFolder) -> str | None:
    """Why a run's design cannot be recomputed from its folder; None if nothing prevents that."""
    if _has_plugins(config):
        return "the config names plugins, which are not imported"
    if record.schedule_secret is not None and not folder.schedule_secret.exists():
        return f"rounds are drawn from {folder.schedule_secret.name}, which is not in the folder"
    if isinstance(config.participation, Replay) and not Path(config.participation.path).exists():
        return f"{config.participation.path}, the log of cohorts, is missing"
    return None


def _has_plugins(config: Config) -> bool:
    """Whether participation, canaries or mechanism are of unknown kinds."""
    tables = (config.participation, config.canaries, config.mechanism)
    return any(isinstance(table, RecordedTable) for table in tables)


def _client_names(config: Config, num_clients: int) -> Iterator[Sequence[str]]:
    """Names of the clients, in each order that the task may have.

    With a replayed log, the clients that canaries copy depend on this order; clients in none of the
    log's rounds do not matter.
    """
    if not isinstance(config.participation, Replay):
        yield NumberedClients(num_clients)
        return
    names = logged_clients(Path(config.participation.path))
    others = [f"\0{number}" for number in range(num_clients - len(names))]
    for key in (None, natural_order):
        yield [*sorted(names, key=key), *others]


def _draws(design: RunDesign, folder: RunFolder) -> bool:
    """Whether a design draws exactly the canaries of a folder, with their rounds."""
    expected = canaries_text(design.included, design.own_rounds.of_canary, design.arms)
    # A file that cannot be read is found where its rows are compared.
    with contextlib.suppress(OSError):
        return read_foreign(folder.canaries) == expected.encode()
    return False


def _recorded_pool(
    folder: RunFolder, config: Config, verified: Verified
) -> Mapping[str, CanaryRow] | None:
    """The canaries of canaries.csv, after comparing coins with the seed's; None if unreadable."""
    path, canaries = folder.canaries, config.canaries
    with verified.reading(path):
        rows = read_canaries(path)
        if isinstance(canaries, RecordedTable):
            return rows
        drawn = draw_included(
            canaries.inclusion, config.seed, len(rows), coin_probability(canaries)
        )
        for coin, (canary, row) in zip(drawn, rows.items(), strict=True):
            if coin != row.included:
                verified.add(
                    path,
                    f"canary {canary} has `included` {int(row.included)}; the seed of the config "
                    f"draws {int(coin)}",
                )
                break
        return rows
    return None


def _pool(folder: RunFolder, design: RunDesign, verified: Verified) -> Mapping[str, CanaryRow]:
    """The canaries drawn from seed and secret, after comparing canaries.csv with them."""
    path = folder.canaries
    own = design.own_rounds.of_canary
    expected = canaries_text(design.included, own, design.arms).split("\n")
    with verified.reading(path):
        with reading(path):
            recorded = read_foreign(path).decode("utf-8").split("\n")
        if (different := first_difference(recorded, expected)) is not None:
            number, row, drawn = different
            verified.add(path, f"row {number} is {row!r}; the seed of the config draws {drawn!r}")
    arms = design.arms or ("",) * len(own)
    return {
        str(canary): CanaryRow(bool(included), rounds, arm)
        for canary, (included, rounds, arm) in enumerate(
            zip(design.included, own, arms, strict=True)
        )
    }


# The record of the run.


def _verify_record(
    of_logs: RunScores, design: RunDesign | None, chain: Chain | None, verified: Verified
) -> RunRecord:
    """The record with recomputed fields, after comparing run.json with it."""
    record, folder = of_logs.record, of_logs.folder
    rows = read_metrics(folder.metrics)
    if not rows or rows[-1].accuracy is None:
        raise InputError(f"{folder.metrics}: lacks the accuracy after the last round")
    derived_fields: dict[str, Any] = {
        "accuracy": rows[-1].accuracy,
        "training_seconds": sum(row.seconds_training for row in rows),
        "scoring_seconds": sum(row.seconds_scoring for row in rows),
    }
    if design is not None:
        derived_fields |= {
            "release": design.release,
            "delta": design.delta,
            "num_included": int(design.included.sum()),
            "schedule_secret": design.secret_from,
        }
        live, bounds = _live(of_logs, design)
        derived_fields |= live
        verify_metrics(of_logs, rows, design, bounds, verified)
    if folder.model.exists():
        model = read_arrays(folder.model, "a model").values()
        derived_fields["model_sha256"] = sha256 = model_digest(model)
        derived_fields["variable_sizes"] = tuple(array.size for array in model)
        scored = None if chain is None else chain.last(Scored)
        if scored is not None and scored.model_sha256 != sha256:
            verified.add(folder.chain, f"names another model than {folder.model.name}, {sha256}")
    derived = dataclasses.replace(record, **derived_fields)
    recorded = read_json(folder.record, dict[str, Any], "a run record")
    for difference in differences(recorded, _as_read(to_json(derived))):
        verified.add(folder.record, str(difference))
    return derived


def _live(
    of_logs: RunScores, design: RunDesign
) -> tuple[dict[str, LiveRecord | int | None], list[float | None]]:
    """The record's fields on the live test, if rounds are logged, and each round's lower bound."""
    record, config, rounds = of_logs.record, of_logs.config, of_logs.rounds
    if rounds is None:
        return {}, [None] * record.rounds_done
    live = LiveAudit.on(design, family_of(config.canaries), record.dim, lambda: rounds)
    bounds, stopped_after = list[float | None](), None
    for index in range(record.rounds_done):
        live.see_round(index)
        bounds.append(live.epsilon)
        if live.must_stop and index + 1 < record.rounds:
            stopped_after = index + 1
            break
    return {"live": live.record, "stopped_after": stopped_after}, bounds


def _as_read(value: Any) -> Any:
    """A value of JSON after a round trip through a file."""
    return json.loads(json.dumps(value))


# The report and its page.


def _verify_report(run: FinishedRun, chain: Chain | None, verified: Verified) -> None:
    """Compares report.json and report.html with a rebuilt report."""
    path = run.folder.report_json
    recorded = read_json(path, dict[str, Any], "a report")
    report = build_report(run)
    verified.report = None if verified.findings else report
    derived = _as_read(report_to_json(report))
    sealed = None if chain is None else chain.last(Reported)
    has_words = not _has_plugins(run.config)
    code, version = sealed and sealed.code, recorded.get("fl_audit_version")
    is_of_this_code = has_words and code == code_digest()
    let_pass = set[str]()
    if sealed is not None and sealed.files.get(path.name) == digest_of(path):
        let_pass.add("last digits")  # as on another processor
    if not is_of_this_code:
        let_pass |= {"words", "lacking"}
        derived["fl_audit_version"] = version
    passed, found = list[Difference](), defaultdict[str, list[Difference]](list)
    for one in differences(recorded, derived):
        part = ".".join(one.place.split(".")[:2])
        (passed if one.kind in let_pass else found[part]).append(one)
    for first, *others in found.values():
        more = f" (and {len(others)} other keys there)" * bool(others)
        verified.add(path, f"{first}{more}")
    if rounded := sum(one.kind == "last digits" for one in passed):
        verified.note(
            f"report.json: {rounded} numbers differ from those made here in their last digits, as "
            "they may on another processor; the chain has the digest of the file"
        )
    if found:
        return
    of_other_code = [path.name] * (len(passed) > rounded)
    if (different := _other_line(run, report, verified)) is not None:
        if is_of_this_code and not passed:
            verified.add(run.folder.report_html, different)
        else:
            of_other_code.append(run.folder.report_html.name)
    if of_other_code:
        verified.not_made_again += of_other_code
        here = f"fl-audit {version}, code {code or 'unknown'}; here {__version__}, {code_digest()}"
        by = f"by {here}" if has_words else "with plugins, not imported here"
        verified.note(f"the report was made {by}")


_NAME = re.compile("Run <b>([^<]*)</b>, finished ")
"""Finds the name of the run's folder on the run's page; the title has the name too."""


def _other_line(run: FinishedRun, report: Report, verified: Verified) -> str | None:
    """Where the page differs from a new page, if it does. Another folder name is only noted."""
    path = run.folder.report_html
    with reading(path):
        recorded = read_foreign(path).decode("utf-8")
    derived, name = page_of_run(report, run), html.escape(run.folder.path.resolve().name)
    written = _NAME.search(recorded)
    if written is not None and written[1] != name:
        verified.note(f"{path.name}: names another folder, {html.unescape(written[1])!r}")
        for before, after in ((", ", "</title>"), ("Run <b>", "</b>, finished ")):
            derived = derived.replace(before + name + after, before + written[1] + after, 1)
    different = first_difference(recorded.split("\n"), derived.split("\n"))
    return None if different is None else f"line {different[0] + 1} differs from a new page"
