"""Stack Overflow next-word prediction (Reddi et al. 2020); TFF downloads the data."""

from collections.abc import Sequence
from itertools import islice

import tensorflow_federated as tff

from fl_audit.config import StackOverflowTask
from fl_audit.tasks.classifier import Examples, LearningTask
from fl_audit.tasks.client_data import ClientDataPopulation, elements
from fl_audit.tasks.next_word import next_word_classifier
from fl_audit.tasks.text import encode
from fl_audit.tasks.vocabulary import Vocabulary, vocabulary_of_words

_HELD_OUT_SENTENCES = 10_000


def load_stackoverflow_task(config: StackOverflowTask, seed: int) -> LearningTask:
    """342,477 clients; held out: 10,000 sentences of the first test clients.

    Args:
      config: the sizes of the model, and how many clients to use.
      seed: of the run; decides the initial weights.
    """
    training, _, test = tff.simulation.datasets.stackoverflow.load_data()
    counts = tff.simulation.datasets.stackoverflow.load_word_counts(
        vocab_size=config.vocabulary_size
    )
    return stackoverflow_task(config, seed, training, test, list(counts))


def stackoverflow_task(
    config: StackOverflowTask,
    seed: int,
    training: tff.simulation.datasets.ClientData,
    test: tff.simulation.datasets.ClientData,
    words: Sequence[str],
) -> LearningTask:
    """The task over data that is at hand, elements of which have a `tokens` string.

    Args:
      config: the sizes of the model, and how many clients to use.
      seed: of the run; decides the initial weights.
      training: the real clients.
      test: whose sentences are held out.
      words: the vocabulary, most frequent first.
    """
    vocabulary = vocabulary_of_words(words, config.vocabulary_size)

    def to_examples(rows: list[dict[str, object]]) -> Examples:
        return _encode(rows, vocabulary, config.sequence_length)

    rows = (row for client_id in test.client_ids for row in elements(test, client_id))
    return LearningTask(
        name="Stack Overflow next word",
        classifier=next_word_classifier(config, vocabulary, seed),
        population=ClientDataPopulation(training, to_examples, config.max_clients),
        held_out=to_examples(list(islice(rows, _HELD_OUT_SENTENCES))),
        max_examples_per_client=config.max_sequences_per_client,
    )


def _encode(rows: list[dict[str, object]], vocabulary: Vocabulary, length: int) -> Examples:
    sentences = [str(row["tokens"], "utf-8").split() for row in rows]  # type: ignore[call-overload]
    return encode(sentences, vocabulary, length)
