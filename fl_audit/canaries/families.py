"""The canary families by name."""

from pathlib import Path

from fl_audit.canaries.dirac import DiracFamily
from fl_audit.canaries.family import CanaryFamily
from fl_audit.canaries.hadamard import HadamardFamily
from fl_audit.canaries.regenerated import GaussianFamily, RademacherFamily
from fl_audit.canaries.store import StoredGaussianFamily
from fl_audit.canaries.tables import Canaries
from fl_audit.errors import InputError

FAMILIES: dict[str, type[CanaryFamily]] = {
    "gaussian": GaussianFamily,
    "rademacher": RademacherFamily,
    "hadamard": HadamardFamily,
    "dirac": DiracFamily,
}
"""The families by the names that a config gives them."""


def make_family(config: Canaries, seed: int, dim: int) -> CanaryFamily:
    """The family of a config, stored where the config says so.

    Args:
      config: The canary table of the config.
      seed: The seed of the run.
      dim: The number of trainable parameters.

    Raises:
      InputError: The keys of the store do not fit together, or the pool does not fit.
    """
    if (config.store == "disk") != (config.store_path is not None):
        raise InputError(
            "canaries.store_path must name a file where canaries.store is 'disk', and only there; "
            f"got store {config.store!r} and path {config.store_path!r}"
        )
    if config.store == "none":
        return FAMILIES[config.family](seed, config.count, dim)
    if config.family != "gaussian":
        raise InputError(
            f"canaries.store must be 'none' for {config.family} canaries, which are made faster "
            f"than they are read, got {config.store!r}"
        )
    path = None if config.store_path is None else Path(config.store_path)
    return StoredGaussianFamily(seed, config.count, dim, path)
