"""The canary families by name."""

from fl_audit.canaries.family import CanaryFamily
from fl_audit.canaries.hadamard import HadamardFamily
from fl_audit.canaries.regenerated import GaussianFamily, RademacherFamily

FAMILIES: dict[str, type[CanaryFamily]] = {
    "gaussian": GaussianFamily,
    "rademacher": RademacherFamily,
    "hadamard": HadamardFamily,
}
"""The families by the name that a config gives them."""
