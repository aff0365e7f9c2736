"""MkDocs hook: the site has the pages of the repository where they lie, and what they link to.

README.md, docs/, benchmarks/, experiments/ and examples/ link to each other by relative paths,
which the code host follows. The site keeps these paths, so that the same links hold in both. A
link to a room of the package leads to a page with its docstrings.
"""

import ast
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
_PAGES = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "docs/*.md",
    "benchmarks/*.md",
    "examples/*/*.md",
    "experiments/*.md",
    "experiments/*/*.md",
)
_LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
_ROOM = re.compile(r"\.\./(fl_audit(?:/\w+)*?)(?:/__init__)?\.py")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The navigation with pages that it does not name, and a page for every room of the API."""
    entries = {title: entry for part in config.nav or () for title, entry in part.items()}
    sections = {title: pages for title, pages in entries.items() if isinstance(pages, list)}
    top = {entry for entry in entries.values() if isinstance(entry, str)}
    named = top.union(
        path for pages in sections.values() for page in pages for path in page.values()
    )
    for page in _pages():
        source = page.relative_to(ROOT).as_posix()
        if source not in named:
            is_experiment = source.startswith("experiments/")
            sections["Papers and experiments" if is_experiment else "Reference"].append(source)
    rooms = [{room: f"docs/api/{room}.md"} for room in _rooms()]
    api = {"Python API": ["docs/api.md", *rooms]}
    reference = sections["Reference"]
    reference[:] = [api if "Python API" in entry else entry for entry in reference]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The theme's files, the pages of the repository, and every file that a page links to."""
    kept = [file for file in files if file.src_dir != config.docs_dir]
    pages = _pages()
    linked = {target for page in pages for target in _linked_files(page)}
    sources = [*pages, *sorted(linked.difference(pages)), ROOT / "docs/site/site.css"]
    here = [
        File(
            path.relative_to(ROOT).as_posix(),
            str(ROOT),
            config.site_dir,
            config.use_directory_urls,
        )
        for path in sources
    ]
    rooms = [
        File.generated(config, f"docs/api/{room}.md", content=_api_page(room)) for room in _rooms()
    ]
    return Files([*kept, *here, *rooms])


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The page with links to folders and rooms turned into links to their pages."""
    source = page.file.src_uri
    folder = (ROOT / source).parent

    def to_page(link: re.Match[str]) -> str:
        room = _ROOM.fullmatch(link[2])
        if source == "docs/api.md" and room:
            return f"{link[1]}api/{room[1].replace('/', '.')}.md{link[3]}"
        if "://" not in link[2] and (folder / link[2]).is_dir():
            return f"{link[1]}{posixpath.join(link[2], 'README.md')}{link[3]}"
        return link[0]

    return _LINK.sub(to_page, markdown)


def _pages() -> list[Path]:
    return [page for pattern in _PAGES for page in sorted(ROOT.glob(pattern))]


def _linked_files(page: Path) -> set[Path]:
    targets = [link[2] for link in _LINK.finditer(page.read_text(encoding="utf-8"))]
    paths = {(page.parent / target).resolve() for target in targets if "://" not in target}
    return {path for path in paths if path.is_file()}


def _rooms() -> list[str]:
    links = _LINK.findall((ROOT / "docs/api.md").read_text(encoding="utf-8"))
    found = [_ROOM.fullmatch(target) for _, target, _ in links]
    return [room[1].replace("/", ".") for room in found if room]


def _api_page(room: str) -> str:
    """A room's docstring and those of its public names; mkdocstrings fills them in."""
    names = list(_public_names(room))
    members = f"      members: [{', '.join(names)}]\n" if names else "      show_submodules: true\n"
    return f"# {room}\n\n::: {room}\n    options:\n{members}"


def _public_names(room: str) -> Iterator[str]:
    """The names in `__all__`; where that is no plain list, those that type checkers see."""
    place = ROOT / Path(*room.split("."))
    source = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    tree = ast.parse(source.read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            yield from (i.value for i in node.value.elts if isinstance(i, ast.Constant))
        elif isinstance(node, ast.If):
            for block in (part for part in node.body if isinstance(part, ast.ImportFrom)):
                yield from (alias.asname for alias in block.names if alias.asname != "__version__")
