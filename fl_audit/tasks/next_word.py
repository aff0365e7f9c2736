"""The next-word LSTM of Reddi et al. 2020 ("Adaptive Federated Optimization", appendix C).

The layers are an embedding, one LSTM layer, a dense layer back to the embedding's width, and a
dense layer to the vocabulary: 4,050,748 parameters at the paper's sizes. Any `client_id,text` CSV
gives a task (`fl_audit.tasks.client_text`).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fl_audit.array_types import Float32Array
from fl_audit.errors import InputError
from fl_audit.progress import warn
from fl_audit.seeds import Stream, generator
from fl_audit.tasks import client_text
from fl_audit.tasks.dense import check_model_size, glorot_uniform, orthogonal, zeros
from fl_audit.tasks.learning_task import LearningTask, Network, NetworkModel

if TYPE_CHECKING:
    from fl_audit.tasks.task_kinds import NextWordTask, TextTask


@dataclass(frozen=True)
class NextWord(Network):
    """Embedding, LSTM, dense layer and output layer; logits of the next token at every position.

    The weights are: embedding; the LSTM's input weights, recurrent weights and biases, with gates
    in Keras' order (input, forget, candidate, output); matrix and biases of each dense layer.
    """


def _initial_weights(
    config: "NextWordTask", num_tokens: int, seed: int
) -> tuple[Float32Array, ...]:
    random = generator(seed, Stream.INITIAL_WEIGHTS)
    width, units = config.embedding_size, config.lstm_size
    check_model_size(
        [(2 * num_tokens, width), (width, 4 * units), (units, 4 * units), (units, width)]
    )

    def matrix(rows: int, columns: int) -> Float32Array:
        return glorot_uniform(random, (rows, columns), rows, columns)

    bias = zeros(4 * units)
    bias[units : 2 * units] = 1.0  # the forget gate starts open, as in Keras
    return (
        random.uniform(-0.05, 0.05, (num_tokens, width)).astype(np.float32),
        matrix(width, 4 * units),
        orthogonal(random, units, 4 * units),
        bias,
        matrix(units, width),
        zeros(width),
        matrix(width, num_tokens),
        zeros(num_tokens),
    )


def next_word_classifier(
    config: "NextWordTask", vocabulary: client_text.Vocabulary, seed: int
) -> NetworkModel:
    """The model over a vocabulary; special tokens do not count for accuracy (Reddi et al.)."""
    length = config.sequence_length
    return NetworkModel(
        network=NextWord(),
        initial_weights=_initial_weights(config, vocabulary.num_tokens, seed),
        input_shape=(length,),
        input_dtype="int32",
        label_shape=(length,),
        padding_label=client_text.PADDING,
        uncounted_labels=(vocabulary.unknown, vocabulary.end),
        accuracy_description=(
            "share of held-out words predicted, padding, end of sentence and words outside the "
            "vocabulary not counted"
        ),
    )


def load_text_task(config: "TextTask", seed: int) -> LearningTask:
    """The task of a CSV's clients; the vocabulary is built from training rows only."""
    path = Path(config.path)
    corpus = _corpus(path, config.sequence_length)
    if not corpus.num_held_out:
        raise InputError(
            f"{path}: has too few rows to hold any out: every tenth row with words is held out, "
            "unless it is its client's first"
        )
    vocabulary = client_text.build_vocabulary(corpus.word_counts, config.vocabulary_size)
    if vocabulary.size < config.vocabulary_size:
        warn(
            f"{path}: the vocabulary has only the {vocabulary.size:,} words of the training rows; "
            f"task.vocabulary_size allows {config.vocabulary_size:,}"
        )
    rows = corpus.rows(vocabulary)
    return LearningTask(
        name=f"next word of {path.name}",
        classifier=next_word_classifier(config, vocabulary, seed),
        population=client_text.SentencePopulation(corpus.client_ids, rows, corpus.first_rows()),
        held_out=client_text.examples_of(rows[: corpus.num_held_out]),
        max_examples_per_client=config.max_sequences_per_client,
        examples_of_sentences=lambda sentences: client_text.examples_of(
            client_text.encode(sentences, vocabulary, config.sequence_length)
        ),
    )


def _corpus(path: Path, length: int) -> client_text.Corpus:
    """The corpus of a CSV; the runs of a sweep read the CSV only once."""
    settings = f"{path.suffix} {length}"
    return client_text.corpus_of_arrays(
        client_text.cached_arrays(
            "text",
            path,
            settings,
            lambda: client_text.collect(client_text.read_sentences(path), length).arrays(),
        )
    )
