"""Settings: runs grouped and labelled by the differences of their configs.

Runs that differ only in their seed repeat one setting; their values of a quantity are a `Spread`.
"""

import dataclasses
import json
import math
import statistics
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fl_audit.comparison.reported_run import Party, ReportedRun
from fl_audit.config import RayCluster, ReleaseStatement
from fl_audit.errors import visible
from fl_audit.json_records import to_json
from fl_audit.report.headline import Combined, Headline
from fl_audit.report.patterns import rounds_words


@dataclass(frozen=True)
class Spread:
    """The values of a quantity over runs: at least one value, possibly infinite.

    With few runs, the smallest and the largest value describe the spread better than a standard
    deviation (Negoescu et al. 2024 draw them too).
    """

    values: tuple[float, ...]

    @classmethod
    def from_values(cls, values: Iterable[float | None]) -> "Spread | None":
        """The spread of the values other than None; None if all values are None."""
        known = tuple(value for value in values if value is not None)
        return cls(known) if known else None

    @property
    def mean(self) -> float:
        """The mean; infinite if any value is."""
        return math.inf if math.inf in self.values else statistics.fmean(self.values)

    @property
    def std(self) -> float | None:
        """Standard deviation (ddof=1); None for a single value, or if a value is infinite."""
        if len(self.values) < 2 or not all(map(math.isfinite, self.values)):
            return None
        return statistics.stdev(self.values)

    @property
    def smallest(self) -> float:
        return min(self.values)

    @property
    def largest(self) -> float:
        return max(self.values)

    def to_json(self) -> dict[str, object]:
        """The JSON object, with infinities as strings."""
        return {
            "values": to_json(self.values),
            "mean": to_json(self.mean),
            "std": self.std,
            "smallest": to_json(self.smallest),
            "largest": to_json(self.largest),
        }


NOISE = "mechanism.noise_multiplier"

CHANCE_OR_MEANS = frozenset(
    {
        "seed",
        "runtime",
        "clients_per_block",
        "schedule_secret",
        "ray",
        *(f"ray.{key}" for key in RayCluster.__struct_fields__),
        "canaries.store",
        "canaries.store_path",
        "audit.threat_models",
        "audit.claim",
        "audit.claimed_epsilon",
        "audit.claimed_mu",
        "audit.claimed_rho",
        "audit.claimed_profile",
        "audit.claimed_delta",
        "audit.lost_canaries",
        "audit.verdict_statistic",
        "audit.verdict_method",
        "audit.replay",
        "log.checkpoint_every",
        "log.evaluate_every",
        *(f"release.{key}" for key in ReleaseStatement.__struct_fields__),
    }
)
"""Keys that do not distinguish settings: the seed, and keys on computing, logging, attackers, the
claim and the release statement.
"""

OF_ONE_ATTACKER = frozenset(
    {"audit.release_every", "audit.window_first_round", "audit.window_last_round"}
)
"""Keys that define which rounds one attacker sees. They distinguish settings only among runs with
that attacker; a run without that attacker just lacks the attacker's statistics.
"""

_REPEATS, _CANARIES = "participation.canary_repeats", "participation.canaries"

_SHORT_NAMES = {NOISE: "noise", _CANARIES: "canaries", _REPEATS: "repeats"}

_ABSENT = object()


@dataclass(frozen=True, eq=False)
class Setting:
    """One way to train, and the runs that repeat it.

    Attributes:
      pattern: What distinguishes the setting from others, except for its noise multiplier.
      noise_multiplier: The effective noise multiplier of a round, to six digits, if known.
      label: The pattern, with the noise multiplier if multipliers differ; or the folder's name.
      keys: The config keys that differ between settings, with this setting's values.
      runs: The runs that repeat the setting, at least one.
    """

    pattern: str
    noise_multiplier: float | None
    label: str
    keys: Mapping[str, Any]
    runs: tuple[ReportedRun, ...]

    @property
    def accuracy(self) -> Spread | None:
        """Accuracy on held-out data, over runs, if known."""
        return Spread.from_values(
            run.record.accuracy for run in self.runs if run.record is not None
        )

    @property
    def denominator(self) -> Spread | None:
        """The expected cohort over runs, if known; it varies with the coins of canaries."""
        return Spread.from_values(
            run.record.release.denominator.expected for run in self.runs if run.record is not None
        )

    def epsilon(self, statistic: str, method: str) -> Spread | None:
        """Epsilon by one method on one statistic, over the runs that have one; None without any."""
        return Spread.from_values(run.epsilon(statistic, method) for run in self.runs)

    def interval(self, statistic: str, method: str) -> tuple[float, float] | None:
        """The smallest interval that covers all runs' intervals by one method; None without any."""
        intervals = [
            ends for run in self.runs if (ends := run.interval(statistic, method)) is not None
        ]
        return (
            (min(lower for lower, _ in intervals), max(upper for _, upper in intervals))
            if intervals
            else None
        )

    @property
    def participations(self) -> Spread | None:
        """Mean number of rounds of a canary, over runs, if known."""
        return Spread.from_values(run.participations for run in self.runs)

    @property
    def rounds_words(self) -> str:
        """How often a canary participates, in words; empty if unknown."""
        return rounds_words(None if self.participations is None else self.participations.mean)

    def headline(self, statistic: str) -> Headline | None:
        """The combined result of all runs on one statistic; None if no run has the statistic.

        The lower bound is the smallest of the runs' bounds, valid at the confidence of one run. The
        estimate is the mean, with an interval that covers the intervals of all runs.
        """
        headlines = [
            headline for run in self.runs if (headline := run.headline(statistic)) is not None
        ]
        return _combined_headline(headlines) if headlines else None

    def guarantee(self, party: Party) -> Spread | None:
        """The runs' upper bounds from accounting for one party; None if any is unknown."""
        known = [run.guarantee(party) for run in self.runs]
        return None if None in known else Spread.from_values(known)


def _combined_headline(headlines: Sequence[Headline]) -> Headline:
    """The headline of runs that repeat one setting."""
    bounds = [headline.lower_bound_epsilon() for headline in headlines]
    guarantees = [headline.upper_bound for headline in headlines]
    fits = [headline.estimated for headline in headlines if headline.estimated is not None]
    lowers = [fit.lower for fit in fits if fit.lower is not None]
    uppers = [fit.upper for fit in fits if fit.upper is not None]
    mean = Spread.from_values(fit.epsilon for fit in fits)
    ends = min(lowers, default=None), max(uppers, default=None)
    bound, guarantee = Spread.from_values(bounds), Spread.from_values(guarantees)
    return dataclasses.replace(
        headlines[0],
        lower_bound=None if bound is None else Combined(bound.smallest, bound.smallest),
        estimated=None if mean is None else Combined(mean.mean, *ends),
        upper_bound=None if guarantee is None or None in guarantees else guarantee.largest,
    )


def group_by_setting(audits: Sequence[ReportedRun]) -> list[Setting]:
    """The settings of some runs, sorted by pattern and then by noise multiplier.

    Settings are named by the keys that differ, or by their folders if such names are long.

    Patterns are sorted by the keys that differ: numbers ascend; names, such as kinds, keep the
    order of the runs. Scores of another system come last, each a setting named by its folder.
    """
    runs = [run for run in audits if run.record is not None]
    others = [run for run in audits if run.record is None]
    configs = [_effective(run.config) for run in runs]
    differing = differing_keys(configs)
    grouped: dict[Hashable, list[ReportedRun]] = {}
    for run, config in zip(runs, configs, strict=True):
        identity = tuple(_text(config.get(key, _ABSENT)) for key in differing)
        grouped.setdefault(identity, []).append(run)
    settings = [_setting(members, differing) for members in grouped.values()]
    ranks = {key: _ranks([config.get(key, _ABSENT) for config in configs]) for key in differing}

    def place(setting: Setting) -> list[int]:
        values = {key: _text(setting.keys.get(key, _ABSENT)) for key in differing}
        return [ranks[key][values[key]] for key in sorted(differing, key=lambda k: k == NOISE)]

    return [
        *_briefly_named(sorted(settings, key=place)),
        *(
            Setting(name, noise_multiplier=None, label=name, keys={}, runs=(run,))
            for run in others
            for name in [visible(str(run.folder))]
        ),
    ]


_LONGEST_LABEL = 40


def _briefly_named(settings: Sequence[Setting]) -> Sequence[Setting]:
    """The settings, named by folder if a label is long, settings have one run, and names differ."""
    names = [run.folder.resolve().name for setting in settings for run in setting.runs]
    is_brief = all(len(setting.label) <= _LONGEST_LABEL for setting in settings)
    if is_brief or len(set(names)) < len(names) or len(names) > len(settings):
        return settings
    return [
        dataclasses.replace(setting, label=visible(name))
        for setting, name in zip(settings, names, strict=True)
    ]


def _ranks(values: Sequence[Any]) -> dict[str | None, int]:
    """The rank of each distinct value: names in the order given, then numbers, ascending."""
    is_number = [isinstance(value, int | float) for value in values]
    numbers = sorted(value for value, number in zip(values, is_number, strict=True) if number)
    names = [value for value, number in zip(values, is_number, strict=True) if not number]
    distinct = dict.fromkeys(map(_text, [*names, *numbers]))
    return {text: rank for rank, text in enumerate(distinct)}


def _effective(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config without keys that have no effect, such as repeats if canaries do not repeat."""
    has_repeats = config.get(_CANARIES, "repeats") == "repeats"
    return {
        key: value
        for key, value in config.items()
        if (has_repeats or key != _REPEATS) and not (key in OF_ONE_ATTACKER and value is None)
    }


def differing_keys(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The keys (`section.key`) in which the configs differ as settings, in the configs' order.

    A key of some kinds only, or of one attacker (`OF_ONE_ATTACKER`), differs only if the configs
    that have the key disagree.
    """
    keys = dict.fromkeys(key for config in configs for key in config)
    return [key for key in keys if key not in CHANCE_OR_MEANS and _differs(key, configs)]


def _differs(key: str, configs: Sequence[Mapping[str, Any]]) -> bool:
    present = {_text(config[key]) for config in configs if key in config}
    if len(present) > 1:
        return True
    if key in OF_ONE_ATTACKER:
        return False
    kind = f"{key.rpartition('.')[0]}.kind"
    another_kind = key != kind and len({config.get(kind) for config in configs}) > 1
    return not another_kind and any(key not in config for config in configs)


def _text(value: Any) -> str | None:
    """A value as text, the same for equal values; None for `_ABSENT`."""
    return None if value is _ABSENT else json.dumps(_number(value))


def _number(value: Any) -> Any:
    """An integer as a float: 0 and 0.0 are one setting."""
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    return float(value) if is_integer else value


def _setting(runs: Sequence[ReportedRun], differing: Sequence[str]) -> Setting:
    config = _effective(runs[0].config)
    keys = {key: config[key] for key in differing if key in config}
    record = runs[0].record
    noise = None if record is None else record.release.noise
    return Setting(
        pattern=_label({key: keys[key] for key in keys if key != NOISE}) or "all runs",
        # The effective multiplier is solved from its parts, exact only up to rounding.
        noise_multiplier=None if noise is None else float(f"{noise.noise_multiplier:.6g}"),
        label=_label(keys) or "all runs",
        keys=keys,
        runs=tuple(runs),
    )


def _label(keys: Mapping[str, Any]) -> str:
    """A label with the noise last, such as "shuffle, repeats 4, noise 0.1"."""
    ordered = sorted(keys, key=lambda key: key == NOISE)
    if keys.get(_CANARIES) == "repeats" and _REPEATS in keys:
        ordered.remove(_CANARIES)  # implied by the number of repeats
    return ", ".join(_named(key, keys[key]) for key in ordered)


def _named(key: str, value: Any) -> str:
    """A value with its name, for a label.

    >>> _named("participation.kind", "bernoulli"), _named("client.batch_size", 5)
    ('bernoulli', 'client batch size 5')
    >>> _named("mechanism.zeroing.kind", "fixed")
    'zeroing fixed'
    """
    table, _, leaf = key.rpartition(".")
    if leaf == "kind":
        _, _, inner = table.rpartition(".")
        return str(value) if inner == table else f"{inner} {value}"
    name = _SHORT_NAMES.get(key, key.replace(".", " ").replace("_", " "))
    return f"{name} {value_text(value)}"


def value_text(value: Any) -> str:
    """A value of a config in words.

    >>> [value_text(value) for value in (0.3, 4, "gaussian", None, [512, 256])]
    ['0.3', '4', 'gaussian', 'default', '512 × 256']
    >>> value_text([]), value_text(["once", "repeats:2"])
    ('none', 'once and repeats:2')
    """
    if value is None:
        return "default"
    if isinstance(value, list | tuple):
        is_shape = all(isinstance(part, int) for part in value)
        return (" × " if is_shape else " and ").join(map(value_text, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
