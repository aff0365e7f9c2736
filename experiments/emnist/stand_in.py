"""A stand-in for EMNIST by writer, in the SQLite format that TFF downloads.

    python -m experiments.emnist.stand_in FOLDER --writers 3400

writes FOLDER/emnist_all.sqlite, writer by writer. Published (TFF, `emnist.load_data`): 3,400
writers with 671,585 images in the split `all_train` and 77,483 in `all_test`, 62 classes, 28 x 28
pixels that are 1 where the paper is white. `--writers` scales their number, `--fewer` divides
everybody's images. Chosen here: the images. A class is a stroke through seven points drawn at
random, a writer moves every stroke a little in their own way, and each image once more; the classes
are equally likely, and numbers of images are Poisson.
"""

import argparse
import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fl_audit.resources import set_tensorflow_defaults

set_tensorflow_defaults()

import tensorflow as tf  # noqa: E402

from experiments.sqlite_file import new_sqlite_file  # noqa: E402

WRITERS = 3_400
CLASSES = 62
IMAGES = {"all_train": 671_585, "all_test": 77_483}
_SIDE = 28
_POINTS, _PER_PIECE = 7, 12

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Hand:
    """Who draws images of the classes.

    Attributes:
      strokes: The points of each class, in pixels, float64 of shape (classes, points, 2).
      random: The source of randomness.
    """

    strokes: Floats
    random: np.random.Generator

    @classmethod
    def of(cls, seed: int) -> "Hand":
        """The classes, drawn from a seed."""
        random = np.random.default_rng(seed)
        return cls(random.uniform(5, 23, (CLASSES, _POINTS, 2)), random)

    def writer(self) -> "Hand":
        """A writer, who moves every point of every class by about a pixel."""
        return Hand(self.strokes + self.random.normal(0, 1.0, self.strokes.shape), self.random)

    def image(self, label: int) -> npt.NDArray[np.float32]:
        """An image of a class, float32 of shape (28, 28), 1 where there is no ink."""
        points = self.strokes[label] + self.random.normal(0, 0.5, (_POINTS, 2))
        steps = np.linspace(0, 1, _PER_PIECE)[:, None]
        line = np.concatenate([a + steps * (b - a) for a, b in itertools.pairwise(points)])
        axis = np.arange(_SIDE)
        along = np.exp(-((axis - line[:, :1]) ** 2) / 1.6)
        across = np.exp(-((axis - line[:, 1:]) ** 2) / 1.6)
        ink = np.max(along[:, :, None] * across[:, None, :], axis=0)
        return np.asarray(1 - ink, np.float32)


def serialized(image: npt.NDArray[np.float32], label: int) -> bytes:
    """An image as a row of the file has it."""
    pixels = tf.train.Feature(float_list=tf.train.FloatList(value=image.ravel()))
    named = {
        "pixels": pixels,
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
    }
    return tf.train.Example(features=tf.train.Features(feature=named)).SerializeToString()


def write(folder: Path, writers: int, fewer: float, seed: int) -> None:
    """Writes the file, which appears when it is whole.

    Args:
      folder: The folder, which is made.
      writers: The number of writers; each is in both splits.
      fewer: The number that images per writer are divided by; everybody keeps one.
      seed: The seed of everything that is drawn.
    """
    path, hand = folder / "emnist_all.sqlite", Hand.of(seed)
    with new_sqlite_file(path) as file:
        for number in range(writers):
            name, writer = f"f{number:04d}_00", hand.writer()
            for split, total in IMAGES.items():
                count = max(1, int(hand.random.poisson(total / WRITERS / fewer)))
                file.add_examples((split, name, row) for row in list(_rows(writer, count)))
                file.add_clients([(name, split, count)])
    sys.stderr.write(f"{writers:,} writers, {path.stat().st_size / 1e6:.0f} MB\n")


def _rows(writer: Hand, count: int) -> Iterator[bytes]:
    for label in writer.random.integers(CLASSES, size=count).tolist():
        yield serialized(writer.image(label), label)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--writers", type=int, default=WRITERS, help="10 to 3,400")
    parser.add_argument("--fewer", type=float, default=1.0, help="divides images per writer")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if not 10 <= arguments.writers <= WRITERS or not arguments.fewer >= 1:
        parser.error(f"--writers must be within 10 and {WRITERS:,}, --fewer at least 1")
    write(arguments.folder, arguments.writers, arguments.fewer, arguments.seed)


if __name__ == "__main__":
    main()
