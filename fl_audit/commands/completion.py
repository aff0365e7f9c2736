"""`fl-audit completion`: completion of commands and options in a shell."""

import argparse
import functools

from fl_audit.commands.parser import Commands, add_command

_BASH = """\
_fl_audit() {{
    local words
    case "${{COMP_WORDS[1]}}" in
{cases}
        *) words="{commands}" ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _fl_audit fl-audit
"""

_BEFORE = {"bash": "", "zsh": "autoload -U +X compinit bashcompinit && compinit && bashcompinit\n"}
"""By shell: the lines that it needs before Bash's `complete`."""


def add(commands: Commands) -> None:
    """Adds the command, which completes all commands, also those added later."""
    parser = add_command(
        commands,
        functools.partial(_completion, commands),
        name="completion",
        summary="completion of commands and options in a shell",
        description='Completion in this shell: eval "$(fl-audit completion bash)".',
        example="fl-audit completion bash > ~/.local/share/bash-completion/completions/fl-audit",
    )
    parser.add_argument("shell", choices=sorted(_BEFORE))


def _completion(commands: Commands, arguments: argparse.Namespace) -> int:
    options = {
        name: " ".join(o for o in parser._option_string_actions if o.startswith("--"))
        for name, parser in commands.choices.items()
    }
    cases = "\n".join(f'        {name}) words="{words}" ;;' for name, words in options.items())
    script = _BASH.format(cases=cases, commands=" ".join(options))
    print(_BEFORE[arguments.shell] + script, end="")
    return 0
