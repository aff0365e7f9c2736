"""Runs the cells of a notebook and writes what they print, show and draw into it.

`python examples/notebook/execute.py` runs audit.ipynb anew. It does without Jupyter, which the
environment of TensorFlow Federated does not have: a cell is Python, its value is shown by
`_repr_html_` or `repr`, and its open figures become PNGs.
"""

import ast
import base64
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).with_name("audit.ipynb")


def execute(notebook: dict[str, Any], names: dict[str, Any]) -> None:
    """Runs all cells of code in their order and replaces their outputs.

    Args:
      notebook: The notebook, as JSON has it (nbformat 4.5).
      names: The variables that cells share.
    """
    count = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            cell["execution_count"] = count
            cell["outputs"] = _outputs("".join(cell["source"]), names, count)


def _outputs(source: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    import matplotlib as mpl

    mpl.use("Agg")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        value = _value(source, names)
    outputs = []
    if printed.getvalue():
        lines = printed.getvalue().splitlines(keepends=True)
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines})
    if value is not None:
        outputs.append(
            {
                "data": _shown(value),
                "execution_count": count,
                "metadata": {},
                "output_type": "execute_result",
            }
        )
    drawn = [{"data": d, "metadata": {}, "output_type": "display_data"} for d in _figures()]
    return [*outputs, *drawn]


def _value(source: str, names: dict[str, Any]) -> object:
    """The value of the last line where that is an expression, after the others have run."""
    tree = ast.parse(source)
    is_shown = isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";")
    last = tree.body.pop() if is_shown else None
    exec(compile(tree, "a cell", "exec"), names)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), "a cell", "eval"), names)


def _shown(value: Any) -> dict[str, list[str]]:
    if hasattr(value, "_repr_html_"):
        plain = f"<{type(value).__name__}>"
        return {"text/html": value._repr_html_().splitlines(keepends=True), "text/plain": [plain]}
    return {"text/plain": repr(value).splitlines(keepends=True)}


def _figures() -> list[dict[str, str]]:
    """Every open figure as a PNG; they are closed."""
    from matplotlib import pyplot as plt

    images = []
    for number in plt.get_fignums():
        file = io.BytesIO()
        plt.figure(number).savefig(file, format="png", dpi=80, bbox_inches="tight")
        images.append({"image/png": base64.b64encode(file.getvalue()).decode()})
    plt.close("all")
    return images


if __name__ == "__main__":
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else NOTEBOOK
    made = json.loads(path.read_text(encoding="utf-8"))
    execute(made, {"__name__": "__main__"})
    path.write_text(json.dumps(made, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
