"""Templates of pages that need nothing but themselves."""

import importlib.resources
from collections.abc import Mapping
from typing import Any

import jinja2
from markupsafe import Markup


def render(package: str, name: str, context: Mapping[str, Any]) -> str:
    """A page from a template that is installed with a package.

    Args:
      package: that holds the template.
      name: of its file.
      context: everything that the template names, but for `style`, the rules that all pages share;
        a name without a value is an error.
    """
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    style = Markup(_text(__package__, "page.css"))
    return environment.from_string(_text(package, name)).render(context, style=style)


def _text(package: str, name: str) -> str:
    return importlib.resources.files(package).joinpath(name).read_text(encoding="utf-8")
