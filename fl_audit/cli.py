"""The command line: parse, call, print. See each command's --help.

Nothing heavy is imported until a command needs it.
"""

import argparse
import json
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from fl_audit.errors import InputError, Interrupted, nearest

if TYPE_CHECKING:
    from fl_audit.estimators.audit import AuditResult

EXIT_OK = 0
EXIT_BAD_INPUT = 2
EXIT_BROKEN_PIPE = 141
"""What a shell reports for a program that a closed pipe has ended (128 + SIGPIPE)."""


class _Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one line, and what was probably meant."""

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        raise InputError(message)

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        """Parse, but refuse an unknown option before complaining of what it leaves missing."""
        self._refuse_unknown_options(sys.argv[1:] if args is None else args)
        return super().parse_known_args(args, namespace)

    def _refuse_unknown_options(self, args: Sequence[str]) -> None:
        for token in args:
            if self._subparsers is not None and not token.startswith("-"):
                return  # what follows belongs to the command, whose own parser checks it
            if token == "--":
                return
            name = token.split("=")[0]
            if name.startswith("--") and name not in self._option_string_actions:
                hint = nearest(name, [o for o in self._option_string_actions if o[:2] == "--"])
                self.error(f"unknown option {name!r}: {hint}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    0 for success, 2 and one line for bad input, 128 + N where signal N stopped a run.
    """
    try:
        arguments = _parser().parse_args(argv)
        status: int = arguments.command(arguments)
        sys.stdout.flush()
    except InputError as error:
        print(f"fl-audit: error: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except Interrupted as stop:
        print(f"fl-audit: {stop}; continue with --resume", file=sys.stderr)
        return 128 + stop.signal_number
    except BrokenPipeError:
        # The reader has gone: nothing is left to say, not even by the flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    return status


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="fl-audit",
        description="Audit the privacy of a federated training run.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_estimate(commands)
    _add_one_run(commands)
    _add_mechanism(commands)
    _add_run(commands)
    _add_quickstart(commands)
    return parser


def _add_command(
    commands: "argparse._SubParsersAction[_Parser]",
    command: Callable[[argparse.Namespace], int],
    *,
    name: str,
    summary: str,
    description: str,
) -> _Parser:
    parser = commands.add_parser(name, help=summary, description=description, allow_abbrev=False)
    parser.set_defaults(command=command)
    return parser


def _add_estimate(commands: "argparse._SubParsersAction[_Parser]") -> None:
    parser = _add_command(
        commands,
        _estimate,
        name="estimate",
        summary="epsilon from the scores of canaries",
        description="Estimate epsilon from a file of canary scores (CSV or .parquet).",
    )
    parser.add_argument("scores", metavar="SCORES", type=Path, help="canary_id, included, score")
    parser.add_argument("--delta", type=float, required=True, help="in [0, 1)")
    parser.add_argument("--dim", type=int, help="number of trainable parameters")
    parser.add_argument("--confidence", type=float, default=0.95, help="of each bound")
    parser.add_argument("--methods", metavar="a,b,...", help="default: all that apply")
    parser.add_argument(
        "--null",
        choices=("closed_form", "empirical"),
        help="law of an excluded score; default: closed_form with --dim, else empirical",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _estimate(arguments: argparse.Namespace) -> int:
    from fl_audit.estimators.audit import estimate
    from fl_audit.score_file import read_score_file

    methods = arguments.methods
    result = estimate(
        read_score_file(arguments.scores).canary_scores(),
        delta=arguments.delta,
        dim=arguments.dim,
        confidence=arguments.confidence,
        methods=None if methods is None else [name.strip() for name in methods.split(",")],
        null=arguments.null,
    )
    if arguments.json:
        _print_json(result.to_json())
    else:
        print(_table(result))
    return EXIT_OK


def _add_one_run(commands: "argparse._SubParsersAction[_Parser]") -> None:
    parser = _add_command(
        commands,
        _one_run,
        name="one-run",
        summary="the one-run bound from counts of guesses",
        description="Lower bound on epsilon from guesses in one run (Steinke et al. 2023).",
    )
    parser.add_argument("--examples", type=int, required=True, help="canaries, each a fair coin")
    parser.add_argument("--guesses", type=int, required=True, help="guesses made")
    parser.add_argument("--correct", type=int, required=True, help="guesses that were right")
    parser.add_argument("--delta", type=float, required=True, help="in [0, 1)")
    parser.add_argument("--confidence", type=float, default=0.95, help="of the bound")
    parser.add_argument("--epsilon", type=float, help="null hypothesis to give a p-value for")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _one_run(arguments: argparse.Namespace) -> int:
    from fl_audit.estimators.one_run.bound import epsilon_lower_bound, p_value

    counts = arguments.examples, arguments.guesses, arguments.correct
    lower = epsilon_lower_bound(*counts, arguments.delta, arguments.confidence)
    p = None
    if arguments.epsilon is not None:
        p = p_value(*counts, arguments.epsilon, arguments.delta)
    if arguments.json:
        _print_json({"epsilon_lower": lower, "p_value": p})
        return EXIT_OK
    print(f"epsilon >= {lower:.6g} at {100 * arguments.confidence:g} % confidence")
    if p is not None:
        print(f"p-value of epsilon <= {arguments.epsilon:g}: {p:.6g}")
    return EXIT_OK


def _add_mechanism(commands: "argparse._SubParsersAction[_Parser]") -> None:
    parser = _add_command(
        commands,
        _mechanism,
        name="mechanism",
        summary="one-shot audit of one Gaussian mechanism release",
        description="Audit single releases of a Gaussian mechanism (Andrew et al. 2023, Table 1).",
    )
    parser.add_argument("--epsilon", type=float, required=True, help="true one, which sets sigma")
    parser.add_argument("--delta", type=float, required=True, help="in (0, 1)")
    parser.add_argument("--dim", type=int, required=True, help="length of a release")
    parser.add_argument("--canaries", type=int, required=True, help="in each release")
    parser.add_argument("--trials", type=int, required=True, help="independent releases")
    parser.add_argument("--seed", type=int, required=True, help="of canaries and noise")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _mechanism(arguments: argparse.Namespace) -> int:
    from fl_audit.mechanism_audit import audit_gaussian_mechanism

    audit = audit_gaussian_mechanism(
        epsilon=arguments.epsilon,
        delta=arguments.delta,
        dim=arguments.dim,
        num_canaries=arguments.canaries,
        num_trials=arguments.trials,
        seed=arguments.seed,
    )
    if arguments.json:
        _print_json(audit.to_json())
        return EXIT_OK
    print(f"sigma {audit.sigma:.6g} for epsilon {arguments.epsilon:g}, delta {arguments.delta:g}")
    print(
        f"estimated epsilon {audit.mean:.4g} ± {audit.std:.3g} "
        f"(mean and standard deviation, {arguments.trials} trial{'s'[: arguments.trials != 1]})"
    )
    return EXIT_OK


def _add_run(commands: "argparse._SubParsersAction[_Parser]") -> None:
    parser = _add_command(
        commands,
        _run,
        name="run",
        summary="train with canaries, score them, estimate epsilon, report",
        description="Train with canary clients, score them, estimate epsilon and write a report.",
    )
    parser.add_argument("config", metavar="CONFIG.toml", type=Path, help="what to run")
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="the run folder")
    parser.add_argument(
        "--set",
        metavar="section.key=value",
        dest="overrides",
        action="append",
        default=[],
        help="change one key of the config; may be repeated",
    )
    parser.add_argument("--resume", action="store_true", help="go on from DIR's last checkpoint")
    parser.add_argument("--json", action="store_true", help="print report.json")


def _run(arguments: argparse.Namespace) -> int:
    from fl_audit.config_file import load_config
    from fl_audit.pipeline import continue_run, start_run

    config = load_config(arguments.config, arguments.overrides)
    go = continue_run if arguments.resume else start_run
    report = go(config, arguments.out)
    if arguments.json:
        _print_json(report)
    else:
        _print_report(report, arguments.out)
    return EXIT_OK


def _add_quickstart(commands: "argparse._SubParsersAction[_Parser]") -> None:
    parser = _add_command(
        commands,
        _quickstart,
        name="quickstart",
        summary="the main job end to end on a small real task, in minutes, no download",
        description="Audit two small runs, one without noise and one with, and report on both.",
    )
    parser.add_argument(
        "--out", metavar="DIR", type=Path, help="default: the first free runs/quickstart-N"
    )


def _quickstart(arguments: argparse.Namespace) -> int:
    from fl_audit import quickstart

    out = arguments.out or quickstart.free_folder(Path("runs"))
    reports = quickstart.run(out)
    for noise_multiplier, report in reports.items():
        print(f"noise multiplier {noise_multiplier:g}")
        _print_report(report, out / quickstart.folder_name(noise_multiplier))
        print()
    print(quickstart.comparison(reports))
    return EXIT_OK


def _print_report(report: dict[str, Any], out: Path) -> None:
    from fl_audit.report import summary_lines
    from fl_audit.run_folder import RunFolder

    print("\n".join(summary_lines(report)))
    print(f"report: {RunFolder(out).report_html}")


def _print_json(value: dict[str, object]) -> None:
    print(json.dumps(value, allow_nan=False))


def _table(result: "AuditResult") -> str:
    """The estimates as aligned text, a guarantee beside each number."""
    head = (
        f"{result.num_included} included and {result.num_excluded} excluded canaries, "
        f"delta {result.delta:g}, confidence {result.confidence:g}"
    )
    rows = [("method", "kind", "epsilon", "guarantee")]
    for e in result.estimates:
        rows.append((e.method, e.kind, f"{e.epsilon:.4g}", e.guarantee))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    indent = sum(widths) + 6
    room = max(shutil.get_terminal_size((120, 24)).columns - indent, 40)
    lines = [head, ""]
    for method, kind, epsilon, guarantee in rows:
        first, *rest = textwrap.wrap(guarantee, room)
        start = f"{method:<{widths[0]}}  {kind:<{widths[1]}}  {epsilon:>{widths[2]}}"
        lines += [f"{start}  {first}", *(" " * indent + line for line in rest)]
    lines += [f"left out: {name}: {reason}" for name, reason in result.left_out.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
