"""Sentences on what the mechanism does to updates."""

from fl_audit.formats.folders import RunRecord
from fl_audit.mechanisms import MECHANISMS, Mechanism
from fl_audit.mechanisms.zeroing import zeroing_words


def mechanism_words(record: RunRecord, mechanism: Mechanism) -> str:
    """A sentence on clipping and noise, after one on zeroing where there is any."""
    kind = MECHANISMS.of(mechanism)
    has_noise = record.noise_multiplier != 0
    noise = kind.noise_words(mechanism, record) if has_noise else "; no noise is added"
    return f"{zeroing_words(mechanism.zeroing)}{kind.clip_words(mechanism)}{noise}."
