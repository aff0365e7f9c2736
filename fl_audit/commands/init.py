"""`fl-audit init`: a commented config to start from."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from fl_audit.commands.parser import Commands, add_command, output_file
from fl_audit.commands.printing import print_lines
from fl_audit.errors import InputError


def add(commands: Commands) -> None:
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
        type=output_file,
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
    print_lines(_next_steps(arguments.out, text, has_data=arguments.task != "numbers"))
    return 0


def _next_steps(path: Path, text: str, *, has_data: bool) -> Iterator[str]:
    lines = text.splitlines()
    if to_fill := [str(n) for n, line in enumerate(lines, 1) if line.endswith('= "FILL IN"')]:
        plural = "" if len(to_fill) == 1 else "s"
        yield f"{path}: first fill in line{plural} {', '.join(to_fill)}"
    if not has_data:
        yield f"{path}: is only for `fl-audit plan {path}`, as the task has no data to train on"
        return
    yield f"{path}: try `fl-audit plan {path}`, then"
    yield f"  `fl-audit run {path} --out runs/{path.stem}`"
