"""Walks a run, a log or a score file through every command, and looks for what contradicts itself.

Every walked folder is honest: what the config says is what was done. So a verdict that accuses it,
a folder that does not verify, a bound above its upper bound, or two commands with different numbers
are errors of the program.
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fl_audit.accounting import noise_distribution_named
from fl_audit.cli import main

Say = Callable[..., "Said"]
"""Calls a command with arguments."""


SURE = 1 - 1e-8
"""The confidence where noise is new in every run: all bounds of all cells hold but for 1e-5."""


@dataclass(frozen=True)
class Said:
    """What a command printed, and its exit status."""

    status: int
    out: str
    err: str

    def json(self) -> dict[str, Any]:
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value


def caller(capsys) -> Say:
    """A function that calls a command and looks for tracebacks and for numbers that are none."""

    def say(*arguments: object) -> Said:
        capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        said = Said(status, *capsys.readouterr())
        for text in (said.out, said.err):
            assert "Traceback" not in text, text
            assert not re.search(r"\bnan\b", text, re.IGNORECASE), text
        if status == 2:
            assert said.out == "", (arguments, said.out)
            assert re.findall("^fl-audit: error: ", said.err, re.MULTILINE) != [], said.err
        return said

    return say


# One report.


def _number(value: float | str | None) -> float | None:
    return None if value is None else float(value)


def against_the_truth(report: dict[str, Any], status: int) -> Iterator[str]:
    """What a report of an honest run or log says that cannot be right; nothing if all fits."""
    verdict, analytical = report.get("verdict"), report.get("analytical") or {}
    truth = _number((analytical.get("client") or {}).get("epsilon"))
    checks = report.get("checks") or {}
    if checks.get("passed") is False:
        yield f"checks of an honest mechanism failed: {checks}"
    if (report.get("arrival") or {}).get("state") == "not_arrived":
        yield f"canaries were lost: {report['arrival']}"
    expected = 0
    if verdict is not None and verdict["claim"]["kind"] != "configured":
        outcome, claim = verdict["outcome"], _number(verdict["claimed_epsilon"])
        expected = {"contradicted": 3}.get(outcome, 0)
        if outcome == "contradicted" and truth is not None and claim is not None and claim >= truth:
            yield f"contradicts {claim}, and accounting gives {truth}: {verdict['reason']}"
        if outcome == "consistent" and truth is not None and claim is not None:
            if claim < truth / 1.01:
                yield f"is consistent with {claim}, and accounting gives {truth}"
            if (report.get("arrival") or {}).get("state") != "arrived":
                yield "is consistent, and canaries did not reach the model for sure"
    if status != expected:
        yield f"exits with {status}, and its verdict asks for {expected}"
    for name, each in (report.get("efficiency") or {}).items():
        lower, upper = _number(each["proven"]), _number(each["guaranteed"])
        if lower is not None and upper is not None and lower > upper * 1.01:
            yield f"{name}: lower bound {lower} above the upper bound {upper}"


def on_screen(screen: str, report: dict[str, Any]) -> Iterator[str]:
    """What the lines of a screen say against each other, or against report.json."""
    outcome = (report.get("verdict") or {}).get("outcome")
    words = re.findall(r"^verdict: ([A-Z]+)", screen, re.MULTILINE)
    if words != ([] if outcome is None else [outcome.upper()]):
        yield f"the screen says {words}, report.json {outcome}"
    upper, lower = (
        re.search(rf"^{kind} bound +ε ([≤≥]) ([0-9.,e+]+)", screen, re.MULTILINE)
        for kind in ("upper", "lower")
    )
    if upper and lower and _said(lower) > 1.01 * _said(upper) and outcome != "contradicted":
        yield f"{lower[0]!r} beside {upper[0]!r}"
    if outcome == "consistent" and re.search("FAILED|not conclusive|could not be", screen):
        yield "consistent beside a check that did not pass"
    if screen.count("Next:") > 1:
        yield "two lines on what to do next"


def _said(match: re.Match[str]) -> float:
    return float(match[2].replace(",", "").rstrip("."))


def check_report(said: Said, report: dict[str, Any], status: int) -> None:
    """Asserts that a report and its screen are right about an honest folder."""
    wrong = [*against_the_truth(report, status), *on_screen(said.out, report)]
    assert wrong == [], "\n".join([*wrong, said.out])


# Every command.


def walk_run(
    say: Say,
    config: Path,
    run: Path,
    other: Path,
    *,
    plans: bool = True,
    left: tuple[str, ...] = (),
) -> None:
    """Walks a config: run, show, estimate with claims, verify, release, compare, account, plan.

    `other` is the folder of another finished run. `plans` is off where seconds count. `left` names
    the files that cannot be computed again.
    """
    trained = say("run", config, "--out", run)
    report = json.loads((run / "report.json").read_text())
    check_report(trained, report, trained.status)
    shown = say("show", run)
    assert shown.status == 0
    assert set(shown.out.splitlines()) <= set(trained.out.splitlines()), shown.out
    _estimate_with_claims(say, run, report)
    model = ("--model", run / "model.npz")
    verified = say("verify", run, *model, "--json")
    outcome = (5, "partly") if left else (0, "held")
    assert (verified.status, verified.json()["outcome"]) == outcome, verified.out
    assert tuple(verified.json()["not_made_again"]) == left
    sheet = run.parent / f"{run.name}.html"
    assert say("release", run, "--out", sheet).status == 0
    assert report["verdict"]["outcome"].upper() in sheet.read_text()
    assert say("verify", run, "--sheet", sheet).status == outcome[0]
    compared = say("compare", run, other, "--json")
    assert compared.status == 0, compared.err
    _compare_accounting(say, config, run, report, plans=plans)


def _estimate_with_claims(say: Say, folder: Path, report: dict[str, Any]) -> None:
    """Tests a claim that is right, and one of half of what accounting gives."""
    truth = _number(((report.get("analytical") or {}).get("client") or {}).get("epsilon"))
    for claim in (1.5 * truth, truth / 2) if truth and math.isfinite(truth) else (50.0,):
        arguments = ("estimate", folder, "--claimed-epsilon", f"{claim:.6g}")
        estimated = say(*arguments, "--confidence", SURE, "--json")
        wrong = list(against_the_truth(estimated.json(), estimated.status))
        assert wrong == [], wrong


def _compare_accounting(
    say: Say, config: Path, run: Path, report: dict[str, Any], *, plans: bool
) -> None:
    """Asserts that plan and account, of config and folder, give a client's bound of the report."""
    expected = report["analytical"]["client"]["epsilon"]
    by_folder, by_config = (say("account", path, "--json") for path in (run, config))
    assert (by_folder.status, by_config.status) == (0, 0), by_folder.err + by_config.err
    assert by_folder.json()["client"]["epsilon"] == expected
    found = [by_config.json()["client"]["epsilon"]]
    if plans:
        planned = say("plan", config, "--trials", 19, "--json")
        assert planned.status in (0, 2), planned.err
        if planned.status == 0:
            found.append(planned.json()["analytical"]["client"])
        else:
            assert "a plan does not cover" in planned.err, planned.err
    noise = noise_distribution_named(report["run"]["release"]["noise"]["distribution"])
    if noise.is_by_participants and report["run"].get("schedule_secret") is not None:
        # The run's number is right: its rounds have other sizes than those that the seed draws.
        assert any("drawn from the seed" in one for one in by_config.json()["assumes"])
        assert not any("drawn from the seed" in one for one in by_folder.json()["assumes"])
        return
    assert found == [expected] * len(found)


def walk_log(say: Say, log: Path, page: Path) -> None:
    """Walks the folder of a log: estimate without and with claims, a page, verify, release."""
    plain = say("estimate", log, "--delta", "1e-3", "--json")
    report = plain.json()
    check_report(plain_screen(say, log), report, plain.status)
    truth = _number(((report.get("analytical") or {}).get("client") or {}).get("epsilon"))
    for claim in (1.5 * truth, truth / 2) if truth else (50.0,):
        arguments = ("estimate", log, "--delta", "1e-3", "--claimed-epsilon", f"{claim:.6g}")
        estimated = say(*arguments, "--json")
        wrong = list(against_the_truth(estimated.json(), estimated.status))
        assert wrong == [], wrong
        screen = say(*arguments, "--out", page)
        assert screen.status == estimated.status
        assert list(on_screen(screen.out, estimated.json())) == [], screen.out
    verified = say("verify", log, "--json")
    assert (verified.status, verified.json()["findings"]) in ((0, []), (5, [])), verified.out
    refused = say("release", log, "--out", page)
    assert (refused.status, "holds no finished run" in refused.err) == (2, True)


def plain_screen(say: Say, log: Path) -> Said:
    return say("estimate", log, "--delta", "1e-3")
