"""Rendering of templates to HTML pages that refer to no other file."""

import importlib.resources
from collections.abc import Mapping
from typing import Any

import jinja2
from markupsafe import Markup


def render(package: str, name: str, context: Mapping[str, Any]) -> str:
    """Renders a template that is installed with a package.

    Args:
      package: Name of the package that holds the template.
      name: Name of the template's file, which may include others of its package and of this one.
      context: A value for each name in the template except `style`, the rules that all pages share.

    Raises:
      jinja2.UndefinedError: The template uses a name without a value.
    """
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda included: _text(package, included)),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    style = Markup(_text(__package__, "page.css"))
    return environment.get_template(name).render(context, style=style)


def _text(package: str, name: str) -> str:
    path = importlib.resources.files(package).joinpath(name)
    ours = importlib.resources.files(__package__).joinpath(name)
    return (path if path.is_file() else ours).read_text(encoding="utf-8")
