"""The summary of a posterior of epsilon and strength."""

from dataclasses import dataclass

from fl_audit.estimators.result import Detail, json_value


@dataclass(frozen=True)
class Marginal:
    """Mean and equal-tailed credible interval of one unknown.

    Attributes:
      mean: Posterior mean.
      lower: Lower end, with (1 - confidence) / 2 of the posterior below.
      upper: Upper end, with (1 - confidence) / 2 of the posterior above.
    """

    mean: float
    lower: float
    upper: float

    def details(self) -> dict[str, Detail]:
        """The details of a report on this unknown."""
        return {"mean": self.mean, "lower": self.lower, "upper": self.upper}


@dataclass(frozen=True)
class PosteriorSummary:
    """The posterior of epsilon and of the attacks' strength, given error counts.

    Attributes:
      epsilon: Marginal of epsilon, in nats.
      strength: Marginal of s, in [0, 1].
      acceptance: Share of accepted moves of a Markov chain; None without a chain.
      ess: Effective sample size of epsilon, over all chains; None without a chain.
      r_hat: Split R-hat of epsilon over the chains, near 1 where they agree; None without one.
      tau: Marginal of tau, the correlation of two decisions on the same side; None without it.
      rho: Marginal of rho, the correlation of a decision on each side; None without it.
    """

    epsilon: Marginal
    strength: Marginal
    acceptance: float | None = None
    ess: float | None = None
    r_hat: float | None = None
    tau: Marginal | None = None
    rho: Marginal | None = None

    def to_json(self) -> dict[str, object]:
        """The JSON object that `fl-audit mcmc --json` prints.

        >>> half = Marginal(0.5, 0.25, 0.75)
        >>> list(PosteriorSummary(half, half).to_json())
        ['epsilon', 'strength', 'acceptance', 'ess', 'r_hat']
        """
        values: dict[str, Detail] = {
            "epsilon": self.epsilon.details(),
            "strength": self.strength.details(),
            "acceptance": self.acceptance,
            "ess": self.ess,
            "r_hat": self.r_hat,
        }
        for name, marginal in (("tau", self.tau), ("rho", self.rho)):
            if marginal is not None:
                values[name] = marginal.details()
        return {name: json_value(value) for name, value in values.items()}
