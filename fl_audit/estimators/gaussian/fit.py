"""The paper's estimate: a Gaussian fitted to the included scores (Andrew et al., Alg. 1 and 2)."""

from fl_audit.array_types import FloatArray
from fl_audit.estimators.gaussian.best_threshold import BestThreshold, epsilon_of_laws
from fl_audit.estimators.gaussian.normality import anderson_darling
from fl_audit.estimators.gaussian.regions import epsilon_over_all_regions
from fl_audit.estimators.gaussian.units import in_units
from fl_audit.estimators.laws import ExactCosine, Gaussian
from fl_audit.estimators.result import Detail, Estimate
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.setting import AuditSetting


def gaussian_fit(setting: AuditSetting) -> Estimate:
    """Epsilon of the best threshold between the null and a Gaussian fitted to included scores.

    Andrew et al. (2023), Alg. 1 (closed-form null) and Alg. 2 (Gaussian fitted to the excluded
    scores). Deviations are population ones (ddof=0). Where all included scores are equal the
    fitted law is a point mass, and epsilon is infinite as soon as the null puts mass more than
    delta below it.

    Raises:
      NotApplicableError: If there are fewer than 2 included scores, or fewer than 2 excluded scores
        under the empirical null.
    """
    setting.require(included=2)
    setting.require_null_scores()
    scores, unit = in_units(setting)
    null = _null_law(setting, scores)
    fitted = Gaussian.fitted_to(scores.included)
    best = epsilon_of_laws(null, fitted, setting.delta)
    return Estimate(
        method="gaussian_fit",
        kind="estimate",
        epsilon=best.epsilon,
        assumes="Included scores are Gaussian, and all canaries' scores are independent.",
        guarantee=(
            "None: a point estimate under the Gaussian assumption, not a bound. The true epsilon "
            "may be larger or smaller; a better attack would find more."
        ),
        source="Andrew et al. (2023), arXiv:2302.03098, section 4, Algorithms 1 and 2",
        details={
            "mean": fitted.mean * unit,
            "std": fitted.std * unit,
            "anderson_darling": _anderson_darling(scores.included),
            **_null_details(setting, null, unit),
            **_threshold_details(best, unit),
            "epsilon_all_regions": _all_regions(null, fitted, setting.delta),
        },
    )


def _null_law(setting: AuditSetting, scores: CanaryScores) -> Gaussian | ExactCosine:
    if setting.null == "closed_form":
        return setting.closed_form_null()
    return Gaussian.fitted_to(scores.excluded)


def _null_details(
    setting: AuditSetting, null: Gaussian | ExactCosine, unit: float
) -> dict[str, Detail]:
    if setting.null == "empirical":
        name = "gaussian_fitted_to_excluded"
    else:
        name = "gaussian_limit" if isinstance(null, Gaussian) else "exact_cosine"
    return {
        "null": setting.null,
        "null_law": name,
        "null_mean": null.mean * unit,
        "null_std": null.std * unit,
    }


def _threshold_details(best: BestThreshold, unit: float) -> dict[str, Detail]:
    threshold = None if best.threshold is None else best.threshold * unit
    return {"threshold": threshold, "direction": best.guess}


def _all_regions(null: Gaussian | ExactCosine, fitted: Gaussian, delta: float) -> float | None:
    """Epsilon over all regions, where both laws are Gaussian."""
    return epsilon_over_all_regions(null, fitted, delta) if isinstance(null, Gaussian) else None


def _anderson_darling(included: FloatArray) -> float | None:
    """The normality statistic of the included scores, where it is defined."""
    if len(included) < 3 or included.min() == included.max():
        return None
    return anderson_darling(included).statistic
