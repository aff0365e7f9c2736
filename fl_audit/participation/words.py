"""Sentences for the report on who took part in which rounds."""

from fl_audit.formats.folders import RunRecord
from fl_audit.number_words import count
from fl_audit.participation.pattern import PATTERNS, Participation


def client_rounds(record: RunRecord, participation: Participation) -> str:
    """A sentence on the rounds of real clients."""
    return PATTERNS.of(participation).client_rounds(record, participation)


def canary_rounds(participation: Participation) -> str:
    """A sentence on the rounds of an included canary."""
    return f"Its rounds are {PATTERNS.of(participation).canary_rounds(participation)}."


def most_rounds_of_a_client(record: RunRecord) -> str:
    """The end of a sentence, for patterns that bound how often a client takes part."""
    return f"each client in at most {count(record.client_participations or 0, 'round')}"
