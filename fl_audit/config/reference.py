"""The page that lists every key of a config, made from the classes."""

from collections.abc import Iterator

from fl_audit.config.attack_tables import Attack, FederatedAttack
from fl_audit.config.keys import Key, TableOfKeys, config_tables, table_of_keys

_HEAD = """# Every key of a config

Made from the classes of the config by `python -m fl_audit.config.reference`; a test holds the two
together. A key without a default may be left out unless it is required. `fl-audit init TASK` writes
a config to start from, and `--set section.key=value` changes a key on the command line.
"""


def config_reference() -> str:
    """The page in Markdown: a table of keys for each table and kind, and those of attacks."""
    of_attacks = (
        table_of_keys("attack] beside [participation", FederatedAttack),
        table_of_keys("attack] without [participation", Attack),
    )
    return "\n".join([_HEAD, *(_section(table) for table in (*config_tables(), *of_attacks))])


def _section(table: TableOfKeys) -> str:
    lines = [_title(table), "", table.meaning, ""]
    if table.keys:
        lines += ["| key | takes | default | meaning |", "|---|---|---|---|"]
        lines += [*_rows(table), ""]
    return "\n".join(lines)


def _title(table: TableOfKeys) -> str:
    if not table.name:
        return "## Above all tables"
    return f"## [{table.name}]" + (f' kind = "{table.kind}"' if table.kind else "")


def _rows(table: TableOfKeys) -> Iterator[str]:
    for key in table.keys:
        meaning = key.meaning.replace("|", "&#124;")
        yield f"| `{key.name}` | {key.type} | {_default(key)} | {meaning} |"


def _default(key: Key) -> str:
    if key.is_required:
        return "**required**"
    return "" if key.default is None else f"`{key.default}`"


if __name__ == "__main__":
    print(config_reference(), end="")  # noqa: T201
