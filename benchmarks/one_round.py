"""Time and peak memory of one round of `local` in a process of its own, as JSON."""

import json
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

from benchmarks.next_word import Sizes, classifier_of, made_up_clients
from benchmarks.peak_memory import peak_bytes
from benchmarks.rounds import OurRound, in_memory, run_of
from benchmarks.timing import wall_time
from fl_audit.config import FedAvg


def main() -> None:
    """Prints time and memory."""
    arguments = json.loads(sys.argv[1])
    sizes = Sizes(**arguments["sizes"])
    classifier = classifier_of(sizes)
    clients = made_up_clients(sizes, arguments["cohort"], arguments["batches"])
    one_round = OurRound(run_of(in_memory("made up", classifier, clients), FedAvg()))
    one_round(min(4, len(clients)))  # prepares everything
    took = wall_time(one_round)
    print(json.dumps({"seconds": took, "peak": peak_bytes(), "dim": classifier.dim}))


if __name__ == "__main__":
    main()
