"""`fl-audit init`: a commented config to start from."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from fl_audit.commands.parser import add_command
from fl_audit.errors import InputError

if TYPE_CHECKING:
    from fl_audit.commands.parser import Commands


def add(commands: "Commands") -> None:
    parser = add_command(
        commands,
        _init,
        name="init",
        summary="write a commented config to start from",
        description="Write a config for a task, with every key, its default and its meaning.",
        example="fl-audit init digits --out config.toml",
    )
    parser.add_argument("task", metavar="TASK", help="the kind of the task, such as digits or text")
    parser.add_argument(
        "--out",
        metavar="FILE.toml",
        type=Path,
        default=Path("config.toml"),
        help="default: %(default)s",
    )


def _init(arguments: argparse.Namespace) -> int:
    from fl_audit.config.starting_point import starting_config
    from fl_audit.formats.text_files import write_text

    text = starting_config(arguments.task)
    if arguments.out.exists():
        raise InputError(f"{arguments.out}: exists already; give another name with --out")
    write_text(arguments.out, text)
    lines = text.splitlines()
    if to_fill := [str(n) for n, line in enumerate(lines, 1) if line.endswith('= "FILL IN"')]:
        plural = "" if len(to_fill) == 1 else "s"
        print(f"{arguments.out}: first fill in line{plural} {', '.join(to_fill)}")
    if arguments.task == "numbers":
        print(f"{arguments.out}: for `fl-audit plan {arguments.out}` alone, as there are no data")
        return 0
    print(f"{arguments.out}: try `fl-audit plan {arguments.out}`, then")
    print(f"  `fl-audit run {arguments.out} --out runs/{arguments.out.stem}`")
    return 0
