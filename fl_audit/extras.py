"""The extras of the package: its optional dependencies."""

import importlib
from types import ModuleType

from fl_audit.errors import InputError

EXTRA_OF = {
    "h5py": "training",
    "jax": "jax",
    "jinja2": "report",
    "markupsafe": "report",
    "matplotlib": "report",
    "mlflow": "mlflow",
    "pyarrow": "parquet",
    "ray": "ray",
    "sklearn": "training",
    "tensorboard": "training",
    "tensorflow": "training",
    "tensorflow_federated": "training",
    "tensorflow_privacy": "training",
    "wandb": "wandb",
}
"""The extra that installs a package, by the package's import name."""

_HOW_TO_INSTALL = {
    "training": (
        "install it by `make setup` or `uv sync --frozen --extra training` in a checkout, on "
        "Python 3.11 (pip alone cannot resolve TensorFlow Federated's jaxlib); runtime 'jax' "
        "trains without it, after `pip install '.[jax]'`, on Python 3.11 to 3.13"
    )
}


def missing_extra(error: ModuleNotFoundError) -> InputError | None:
    """The error to show for a missing optional package; None for any other package."""
    package = (error.name or "").split(".")[0]
    if package not in EXTRA_OF:
        return None
    extra = EXTRA_OF[package]
    how = _HOW_TO_INSTALL.get(
        extra, f"install it by `pip install '.[{extra}]'` in a checkout (docs/install.md)"
    )
    return InputError(f"this needs {package}, which is not installed: {how}")


def import_extra(package: str) -> ModuleType:
    """Imports an optional package, a key of `EXTRA_OF`; InputError if it is not installed."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        raise missing_extra(error) or error from error
