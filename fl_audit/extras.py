"""The extras of the package: what has to be installed beside NumPy and SciPy for what."""

from fl_audit.errors import InputError

EXTRA_OF = {
    "matplotlib": "report",
    "pyarrow": "parquet",
    "ray": "ray",
    "sklearn": "training",
    "tensorflow": "training",
    "tensorflow_federated": "training",
    "tensorflow_privacy": "training",
}
"""The extra that installs a package, by the name under which Python imports it."""

_HOW_TO_INSTALL = {
    "training": (
        "it is installed by `make setup` or `uv sync --frozen --extra training` in a checkout, on "
        "Python 3.11 (pip alone cannot resolve TensorFlow Federated's jaxlib)"
    ),
}


def missing_extra(error: ModuleNotFoundError) -> InputError | None:
    """The error to show where an optional package is missing; None where it is none of ours.

    Args:
      error: The error that the import raised.
    """
    package = (error.name or "").split(".")[0]
    if package not in EXTRA_OF:
        return None
    extra = EXTRA_OF[package]
    how = _HOW_TO_INSTALL.get(extra, f"it is installed by `pip install 'fl-audit[{extra}]'`")
    return InputError(f"this needs {package}, which is not installed: {how}")
