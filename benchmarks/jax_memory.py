"""Memory of a block of LSTM clients in JAX: what XLA plans, and a process' peak on this CPU.

    .venv-light/bin/python -m benchmarks.jax_memory

A row for each number of clients in a block, each in a process of its own. Side by side is how an
accelerator trains a block; one by one, with every client's result kept, is how a CPU does.
"""

import json
import sys
from typing import Any

from benchmarks.peak_memory import in_new_process, megabytes, peak_bytes

_BLOCKS = (1, 4, 16, 64)
_BATCHES = 4


def _measured(block: int, side_by_side: bool) -> dict[str, Any]:
    from benchmarks.jax_rounds import Round
    from benchmarks.next_word import PAPER

    made = Round(PAPER, block, _BATCHES, block, side_by_side=side_by_side)
    before = peak_bytes()
    made.run()
    added = peak_bytes() - before
    return {
        "dim": PAPER.dim,
        "planned": made.blocks.planned_bytes(made.weights, made.clients[0]),
        "added": added,
    }


def main() -> None:
    """Prints the table."""
    if len(sys.argv) > 1:
        print(json.dumps(_measured(**json.loads(sys.argv[1]))))
        return
    print(f"{'clients':>8}{'':14}{'XLA plans':>14}{'peak over start':>18}{'models a client':>18}")
    for side_by_side in (True, False):
        for block in _BLOCKS:
            found = in_new_process("jax_memory", block=block, side_by_side=side_by_side)
            models = found["planned"] / block / (4 * found["dim"])
            how = "side by side" if side_by_side else "one by one"
            print(
                f"{block:>8}  {how:<12}{megabytes(found['planned']):>14}"
                f"{megabytes(found['added']):>18}{models:>18.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
