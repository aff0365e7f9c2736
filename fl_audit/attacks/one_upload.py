"""Threat model `one_upload`: the attacker sees one participant's noised upload before it is summed.

A server sees such uploads under local differential privacy, or if each device adds its own noise
("weak" or distributed DP) without secure aggregation. An included canary c uploads clip(c) + noise.
The client of an excluded canary uploads a substitute: noise on zeros, or an ordinary update with
noise. In a run with noise at the client (`mechanisms.client_gaussian`) uploads are what the server
receives; excluded canaries upload nothing, and are scored by a random vector instead.

Neighbouring relation: the lower bound compares a participant who sends the canary with one who
sends the substitute. With noise on zeros this is zero-out: the uploads' means are one clip norm
apart, and under Gaussian noise of z clip norms on a coordinate the pair is N(1 / z, 1) and N(0, 1).
With an ordinary update it is replacement, with sensitivity two clip norms. The scores of excluded
canaries have the same distribution in both cases, so the bound holds for both relations; it is
compared with the guarantee for zero-out, which is the stronger.

Proof that the null is exact. An excluded canary's vector c is drawn independently of the vector v
that its client uploads. Given v, cos(c, v) is the cosine of a random canary with a fixed vector,
whose distribution is known whatever v is (`random_signs` for signs, the cosine of a uniform
direction for the Gaussian family). This holds for every v, so it holds for random v, whether v is
noise, an update with noise, or a function of other canaries. K uploads v_1 to v_K of one client
have cosines that add up to <c, U> with U the sum of v_t / |v_t|. U is independent of c too, so that
the sum divided by |U| is one such cosine, and the sum divided by K >= |U| is no larger.

Equal weights are optimal: each upload's sqrt(d) cos(c, v_t) is N(1 / z, 1), or N(0, 1) for an
excluded canary. By Neyman and Pearson the sum is the best statistic: K uploads are equivalent to
one with noise z / sqrt(K).
"""

import dataclasses
from collections.abc import Mapping
from typing import Self

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.attacks.attacker import AttackContext, Attacker, SeenRound
from fl_audit.attacks.compared_vectors import ComparedVectors
from fl_audit.attacks.statistics import RunFacts, Statistic, null_of_one_cosine
from fl_audit.attacks.threat_models import Knowledge, ThreatModel
from fl_audit.attacks.uploads import CanaryUploads, UploadScores
from fl_audit.estimators.null import Null


def _null(facts: RunFacts) -> Null:
    """The null of one cosine, with the planned shift of included canaries' scores."""
    null = null_of_one_cosine("one_upload", facts)
    if null.kind == "empirical":
        return null
    return dataclasses.replace(null, planned_shift=facts.upload_shift)


ONE_UPLOAD = Statistic(
    name="one_upload",
    title="One upload",
    meaning=(
        "Cosine of the canary with the noised upload of its own client, before anything is summed; "
        "for several uploads, with the sum of their directions. An excluded canary is compared "
        "with what was uploaded in its place."
    ),
    threat_model="one_upload",
    canaries="vectors",
    needs=frozenset({"uploads"}),
    null_of=_null,
)


class OneUploadAttacker(Attacker):
    statistics = (ONE_UPLOAD,)

    def __init__(self, uploads: CanaryUploads) -> None:
        self._uploads = uploads
        self._scores: UploadScores | None = None

    @classmethod
    def from_context(cls, context: AttackContext) -> Self:
        return cls(context.uploads)

    def see_round(self, seen: SeenRound) -> None:
        for canary, upload in seen.uploads.items():
            self._uploads.add(seen.index, canary, upload)

    def flush(self) -> None:
        self._uploads.flush()

    def scores(self, final: Float32Array | None) -> Mapping[str, FloatArray]:
        self._scores = self._uploads.scores()
        return {ONE_UPLOAD.name: self._scores.values}

    def compared_vectors(self, final: Float32Array | None) -> Mapping[str, ComparedVectors]:
        return {} if self._scores is None else {ONE_UPLOAD.name: self._scores.compared}


ONE_UPLOAD_MODEL = ThreatModel(
    name="one_upload",
    title="One upload",
    sees=lambda audit: "the noised uploads of one participant, before they are summed",
    attackers=(OneUploadAttacker,),
    knows=Knowledge.OWN_UPLOADS,
    is_about_sampling=False,
    sees_uploads=True,
)
