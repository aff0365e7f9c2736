"""The list of the benchmark: what is wrong, where it happened, and a server or sampler of it."""

from dataclasses import dataclass

import numpy as np

from experiments.broken_mechanisms import samplers, servers
from experiments.broken_mechanisms.samplers import Sampler
from experiments.broken_mechanisms.servers import CLIP, NOISE, SUM_NOISE, Server, clipped
from fl_audit.accounting.toeplitz import Toeplitz, sqrt_column
from fl_audit.checks import AdaptiveClip

ROUNDS = 20

_SQRT = sqrt_column(2 * ROUNDS)
_BANDS = Toeplitz.from_column(_SQRT[:4], 2 * ROUNDS)
"""The strategy that is accounted; it continues after the run, for the replay of later rounds."""

_ADAPTIVE_CLIP = AdaptiveClip(
    target_quantile=servers.CLIP_QUANTILE,
    learning_rate=servers.CLIP_RATE,
    count_stddev=servers.COUNT_STDDEV,
    denominator=servers.DENOMINATOR,
)

_GITHUB = "https://github.com/"
_RIGHT_SERVER = servers.server()


@dataclass(frozen=True)
class Bug:
    """A mechanism of the benchmark.

    Attributes:
      name: What is wrong, in words.
      server: The server's round.
      thread: The public thread in which it, or its kind, was reported; None where none is known.
      sampler: The sampler, where that is what is wrong or the claim counts on it; else None.
      sum_noise: The noise multiplier that the sum should have.
      correlation: What is accounted to correlate the noise; None for independent noise.
      adaptive_clip: What is promised to move the clip norm; None where it is fixed.
      is_broken: Whether anything is wrong.
    """

    name: str
    server: Server = _RIGHT_SERVER
    thread: str | None = None
    sampler: Sampler | None = None
    sum_noise: float = NOISE
    correlation: Toeplitz | None = None
    adaptive_clip: AdaptiveClip | None = None
    is_broken: bool = True


def _at(repository: str, number: int, kind: str = "issues") -> str:
    return f"{_GITHUB}{repository}/{kind}/{number}"


BUGS = (
    Bug(
        "noise not scaled with the adaptive clip",
        servers.adaptive(first_clip=CLIP),
        sum_noise=SUM_NOISE,
        adaptive_clip=_ADAPTIVE_CLIP,
    ),
    Bug(
        "noise over the denominator twice",
        servers.server(multiplier=NOISE / servers.DENOMINATOR),
        _at("tensorflow/privacy", 153),
    ),
    Bug("clip after noise, at the client", servers.noised_then_clipped, _at("illidanlab/dpgan", 4)),
    Bug("no clip for one variable: a matrix", servers.server(servers.unclipped(0))),
    Bug("no clip for one variable: the last bias", servers.server(servers.unclipped(3))),
    Bug(
        "clip by variable",
        servers.server(lambda u, c: [clipped([part], c)[0] for part in u]),
        _at("fedbiomed/fedbiomed", 1443),
    ),
    Bug("noise generated once, used in every round", servers.reseeded(lambda state: 5)),
    Bug("one seed on workers that sum clients", servers.server(noise=servers.same_workers)),
    Bug("one seed on workers that hold pieces", servers.server(noise=servers.same_pieces)),
    Bug("half the noise multiplier", servers.server(multiplier=NOISE / 2)),
    Bug("every client counted twice", servers.server(lambda u, c: [2 * p for p in clipped(u, c)])),
    Bug("one upload in ten counted twice", servers.retried),
    Bug("drawn with replacement", sampler=samplers.with_replacement),
    Bug(
        "denominator: who came, not who was expected",
        servers.server(denominator=lambda count: max(1, count)),
        _at("meta-pytorch/opacus", 571),
    ),
    Bug(
        "denominator: follows the size of the data set",
        servers.server(denominator=servers.share_of_data_set),
        _at("meta-pytorch/opacus", 819),
    ),
    Bug(
        "shuffled batches, accounted as Poisson",
        thread=_at("meta-pytorch/opacus", 128, "pull"),
        sampler=samplers.shuffled,
    ),
    Bug(
        "rounds of one size, accounted as Poisson",
        thread=_at("meta-pytorch/opacus", 80),
        sampler=samplers.fixed_size,
    ),
    Bug(
        "a weighted sampler, accounted as Poisson",
        thread=_at("meta-pytorch/opacus", 813),
        sampler=samplers.by_weight,
    ),
    Bug(
        "the sum is clipped, not the updates",
        servers.clip_of_sum,
        _at("JeffffffFu/Awesome-Differential-Privacy-and-Meachine-Learning", 9),
    ),
    Bug(
        "noise inside the clip, which clients have not",
        servers.clip_of_noised_sum,
        _at("NVIDIA/NVFlare", 462),
    ),
    Bug(
        "coordinates clamped instead of a clip of the norm",
        servers.server(servers.clamped),
        _at("KanishJebaMathewM/Truxify", 3858, "pull"),
    ),
    Bug(
        "the clip norm squared in the noise",
        servers.server(multiplier=NOISE * CLIP),
        _at("greenelab/SPRINT_gan", 5),
    ),
    Bug(
        "noise in float16",
        servers.server(noise=servers.in_float16),
        _at("meta-pytorch/opacus", 616),
    ),
    Bug(
        "some coordinates without noise",
        servers.server(noise=servers.with_holes),
        _at("NVIDIA/NVFlare", 343),
    ),
    Bug("the last bias without noise", servers.server(noise=servers.but_the_last_bias)),
    Bug(
        "one random key for all variables",
        servers.server(noise=servers.one_key),
        _at("jax-ml/jax", 3646, "pull"),
    ),
    Bug(
        "no noise in a round without clients",
        servers.no_noise_when_empty,
        _at("meta-pytorch/opacus", 530, "pull"),
    ),
    Bug(
        "the adaptive clip's count not paid for",
        servers.adaptive(multiplier=NOISE),
        _at("google-parfait/tensorflow-federated", 1080, "pull"),
        sum_noise=SUM_NOISE,
        adaptive_clip=_ADAPTIVE_CLIP,
    ),
    Bug(
        "the adaptive clip's count without noise",
        servers.adaptive(count_stddev=0.0),
        sum_noise=SUM_NOISE,
        adaptive_clip=_ADAPTIVE_CLIP,
    ),
    Bug(
        "the secure sum overflows",
        servers.overflowing,
        _at("fedbiomed/fedbiomed", 1089, "pull"),
    ),
    Bug(
        "clip of microbatches, not of clients", servers.microbatches, _at("tensorflow/privacy", 620)
    ),
    Bug("weights by private counts", servers.weighted),
    Bug("momentum before noise", servers.momentum_before_noise),
    Bug(
        "a restarted tree begins with the old noise",
        servers.restarted_trees,
    ),
    Bug("seeds reused after a resume", servers.reseeded(lambda state: state["round"] % 10)),
    Bug(
        "half the noise multiplier, correlated",
        servers.correlated(_SQRT[:4], multiplier=NOISE / 2),
        correlation=_BANDS,
    ),
    Bug("independent noise, accounted as correlated", correlation=_BANDS),
    Bug(
        "the square root, accounted as four bands",
        servers.correlated(_SQRT),
        correlation=_BANDS,
    ),
    Bug("bands cut short", servers.correlated(_SQRT[:3]), correlation=_BANDS),
    Bug(
        "a noise stream that restarts after a resume",
        servers.correlated(_SQRT[:4], restart_every=6),
        correlation=_BANDS,
    ),
    Bug(
        "correlated noise: one z for two rounds",
        servers.correlated(_SQRT[:4], z_every=2),
        correlation=_BANDS,
    ),
    Bug(
        "a matrix scaled to columns of norm 1 in accounting alone",
        servers.correlated(_SQRT[:4]),
        correlation=Toeplitz.from_column(_SQRT[:4] / np.linalg.norm(_SQRT[:4]), 2 * ROUNDS),
    ),
)
"""The broken ones."""

RIGHT = (
    Bug("correct: fixed clip", is_broken=False),
    Bug(
        "correct: adaptive clip",
        servers.adaptive(),
        sum_noise=SUM_NOISE,
        adaptive_clip=_ADAPTIVE_CLIP,
        is_broken=False,
    ),
    Bug("correct: Poisson sampling", sampler=samplers.poisson, is_broken=False),
    Bug(
        "correct: four bands",
        servers.correlated(_SQRT[:4]),
        correlation=_BANDS,
        is_broken=False,
    ),
)
