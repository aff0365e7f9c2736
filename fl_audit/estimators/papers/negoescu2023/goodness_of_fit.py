"""The Kolmogorov-Smirnov table of Negoescu et al.: whether Gaussian mixtures fit the losses."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError
from fl_audit.estimators.papers.negoescu2023.mixture import fitted_mixture


@dataclass(frozen=True, eq=False)
class KolmogorovSmirnovTable:
    """P-values of the hypothesis that a fitted mixture is the law of held-out values.

    Attributes:
      num_components: Numbers of components of the mixture, by row (c of them).
      num_samples: Numbers of held-out values, and of draws from the fit, by column (s of them).
      p_values: P-values of the two-sample Kolmogorov-Smirnov test, float64 of shape (c, s).
    """

    num_components: tuple[int, ...]
    num_samples: tuple[int, ...]
    p_values: FloatArray

    def not_rejected(self, level: float = 0.05) -> FloatArray:
        """The share of columns whose p-value exceeds the level, float64 of shape (c,)."""
        return np.asarray(np.mean(self.p_values > level, axis=1))


def kolmogorov_smirnov_table(
    values: npt.ArrayLike,
    *,
    num_components: Sequence[int] = range(1, 21),
    num_samples: Sequence[int] = range(100, 1001, 100),
    seed: int,
) -> KolmogorovSmirnovTable:
    """A test of how well mixtures of 1 to 20 Gaussians fit values held out of their fit.

    For each cell: split the values at random into an evaluation set of `num_samples` and a
    fitting set of the rest; fit the mixture to the latter; draw `num_samples` from the fit; test
    whether the draws and the evaluation set have one law. Negoescu et al. (2024), appendix B, 8.2.

    The paper takes a p-value above 0.05 as a sign of a good fit. It is a weak one: with 100
    against 100 values the test misses all but gross misfits, and it hardly looks at the tails,
    which decide Epsilon*.

    Args:
      values: Transformed losses of members or of non-members (`LossTransform.logits`), of shape
        (n,).
      num_components: Numbers of components of the mixtures, each at least 1.
      num_samples: Sizes of the evaluation set, each at least 1.
      seed: Seed of splits, fits and draws; those of a cell depend on its own numbers only.

    Raises:
      InputError: If a fitting set would be smaller than its number of components, or an
        evaluation set empty.
    """
    sample = np.asarray(values, dtype=np.float64)
    if len(num_components) == 0 or len(num_samples) == 0:
        raise InputError("num_components and num_samples must each hold at least one number")
    if min(num_samples) < 1 or sample.size < max(num_samples) + max(num_components):
        raise InputError(
            f"num_samples must be at least 1 and leave {max(num_components)} of the "
            f"{sample.size} values to fit, got {min(num_samples)} to {max(num_samples)}"
        )
    p_values = np.array(
        [[_p_value(sample, k, size, seed) for size in num_samples] for k in num_components]
    )
    p_values.flags.writeable = False
    return KolmogorovSmirnovTable(tuple(num_components), tuple(num_samples), p_values)


def _p_value(sample: FloatArray, num_components: int, num_samples: int, seed: int) -> float:
    from scipy import stats  # here, for it takes half a second

    rng = np.random.default_rng([seed, num_components, num_samples])
    shuffled = rng.permutation(sample)
    fitted = fitted_mixture(shuffled[num_samples:], num_components, seed)
    drawn = fitted.sample(num_samples, rng)
    return float(stats.ks_2samp(shuffled[:num_samples], drawn).pvalue)
