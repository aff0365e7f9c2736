"""A stand-in for the Stack Overflow data, in the SQLite format that TFF downloads.

    python -m experiments.stackoverflow.stand_in FOLDER --clients 342477 --fewer 8

writes FOLDER/stackoverflow.sqlite and FOLDER/stackoverflow.word_count, client by client. Published
(TFF, `stackoverflow.load_data`): 342,477 clients with 135,818,730 sentences in the split `train`,
204,088 with 16,586,035 in `test`; no client with fewer than 100 sentences was kept before the
split. `--clients` scales the numbers of clients, `--fewer` divides every client's sentences. Chosen
here, as nothing is published: a Pareto distribution of sentences per client, whose cut at 100,000
takes 7 % off its mean (5 % in `test`); log-normal lengths of sentences; words by the distribution
of Zipf and Mandelbrot with exponent 1.2. Every second word of a sentence is, with probability 0.9,
the fixed follower of the word before it (the 1st and 2nd most frequent words follow each other, the
3rd and 4th, and so on); all others are drawn independently. So a model can learn frequencies and
followers, and no more. An example has the feature `tokens` alone.
"""

import argparse
import string
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fl_audit.resources import set_tensorflow_defaults

set_tensorflow_defaults()

import tensorflow as tf  # noqa: E402

from experiments.sqlite_file import NewSqliteFile, new_sqlite_file  # noqa: E402

CLIENTS = 342_477
WORDS = 100_000
_MOST_SENTENCES = 100_000
_CLIENTS_AT_ONCE = 200


@dataclass(frozen=True)
class Split:
    """One split of the published data.

    Attributes:
      name: Its name in the file.
      clients: The number of its clients.
      sentences: The number of their sentences.
      fewest: The fewest sentences of a client.
    """

    name: str
    clients: int
    sentences: int
    fewest: int


SPLITS = (
    Split("train", CLIENTS, 135_818_730, 100),
    Split("test", 204_088, 16_586_035, 20),  # what of a client is later than 2017; 20 is a choice
)


def words() -> list[str]:
    """The made-up words, short ones first: a, b and so on to z, then aa, ab."""
    made = [""]
    for word in made:
        if len(made) > WORDS:
            break
        made.extend(word + letter for letter in string.ascii_lowercase)
    return made[1 : WORDS + 1]


def sentences_per_client(split: Split, count: int, random: np.random.Generator) -> np.ndarray:
    """The published numbers' skew: Pareto with the fewest and the mean sentences of a split.

    Args:
      split: The split.
      count: The number of clients to draw.
      random: The source of randomness.
    """
    mean = split.sentences / split.clients
    # The mean of a Pareto distribution is shape / (shape - 1) fewest.
    shape = mean / (mean - split.fewest)
    drawn = split.fewest * (1 + random.pareto(shape, count))
    return np.minimum(drawn, _MOST_SENTENCES)


class Speaker:
    """Who draws sentences, and counts the words."""

    def __init__(self, seed: int) -> None:
        """Makes the vocabulary and its distribution.

        Args:
          seed: The seed of everything that is drawn.
        """
        self.random = np.random.default_rng(seed)
        self.words = np.array(words(), dtype=object)
        weights = (np.arange(WORDS) + 2.7) ** -1.2
        self._cumulative = np.cumsum(weights / weights.sum())
        self.counts = np.zeros(WORDS, np.int64)

    def sentences(self, count: int) -> Iterator[str]:
        """So many sentences, of 1 to 100 words each, 12 in the median."""
        lengths = np.clip(self.random.lognormal(np.log(12), 0.7, count).astype(int), 1, 100)
        drawn = np.searchsorted(self._cumulative, self.random.random(lengths.sum()))
        drawn = np.minimum(drawn, WORDS - 1)
        ends = np.cumsum(lengths)
        place = np.arange(len(drawn)) - np.repeat(ends - lengths, lengths)
        follows = np.flatnonzero((place % 2 == 1) & (self.random.random(len(drawn)) < 0.9))
        drawn[follows] = drawn[follows - 1] ^ 1
        self.counts += np.bincount(drawn, minlength=WORDS)
        spoken = self.words[drawn].tolist()
        for start, end in zip(ends - lengths, ends, strict=True):
            yield " ".join(spoken[start:end])


def serialized(sentence: str) -> bytes:
    """A sentence as a row of the file has it."""
    value = tf.train.Feature(bytes_list=tf.train.BytesList(value=[sentence.encode()]))
    features = tf.train.Features(feature={"tokens": value})
    return tf.train.Example(features=features).SerializeToString()


def write(folder: Path, clients: int, fewer: float, seed: int) -> None:
    """Writes both files; the database appears when it is whole.

    Args:
      folder: The folder, which is made.
      clients: The number of training clients; test clients are in proportion.
      fewer: The number that sentences per client are divided by; everybody keeps one.
      seed: The seed of everything that is drawn.
    """
    path = folder / "stackoverflow.sqlite"
    speaker, started = Speaker(seed), time.monotonic()
    with new_sqlite_file(path) as file:
        for split in SPLITS:
            count = max(1, round(split.clients * clients / CLIENTS))
            numbers = sentences_per_client(split, count, speaker.random) / fewer
            write_split(file, split.name, np.maximum(numbers.astype(int), 1), speaker)
            said = f"{split.name}: {count:,} clients, {time.monotonic() - started:.1f} s so far\n"
            sys.stderr.write(said)
    write_counts(folder / "stackoverflow.word_count", speaker)
    seconds, size = time.monotonic() - started, path.stat().st_size
    sys.stderr.write(f"{clients / seconds:.0f} training clients/s, {size / 1e6:.0f} MB\n")


def write_split(file: NewSqliteFile, split: str, numbers: np.ndarray, speaker: Speaker) -> None:
    """Writes the clients of one split, some at a time."""
    names = [f"{client:08d}" for client in range(1, len(numbers) + 1)]
    for start in range(0, len(names), _CLIENTS_AT_ONCE):
        some = slice(start, start + _CLIENTS_AT_ONCE)
        spoken = speaker.sentences(int(numbers[some].sum()))
        of_whom = np.repeat(names[some], numbers[some]).tolist()
        file.add_examples(
            (split, name, serialized(s)) for name, s in zip(of_whom, spoken, strict=True)
        )
    file.add_clients((n, split, int(k)) for n, k in zip(names, numbers, strict=True))


def write_counts(path: Path, speaker: Speaker) -> None:
    """Writes a line `word count` for every word that was said, most frequent first."""
    order = np.argsort(-speaker.counts, kind="stable")
    lines = (f"{speaker.words[i]} {speaker.counts[i]}\n" for i in order if speaker.counts[i])
    path.write_text("".join(lines))


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--clients", type=int, default=5_000, help="100 to 342,477")
    parser.add_argument("--fewer", type=float, default=8.0, help="divides sentences per client")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if not 100 <= arguments.clients <= CLIENTS or not arguments.fewer >= 1:
        parser.error(f"--clients must be within 100 and {CLIENTS:,}, --fewer at least 1")
    write(arguments.folder, arguments.clients, arguments.fewer, arguments.seed)


if __name__ == "__main__":
    main()
