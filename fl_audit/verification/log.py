"""A log folder, of `RoundScorer` or of another system: its coins and scores, made again."""

from fl_audit.attacks.logs import Progress, read_log, score_log
from fl_audit.formats.folders import LogFolder
from fl_audit.formats.round_chain import Chain
from fl_audit.verification.findings import Findings
from fl_audit.verification.scores import compare_scores


def verify_log(folder: LogFolder, chain: Chain | None, progress: Progress, found: Findings) -> None:
    """Makes the scores of a log again, and holds its score files against them.

    Args:
      folder: The folder of the log.
      chain: Its chain; None where there is none that could be read.
      progress: The function that goes through the files of aggregates that are read.
      found: What is found is added to it.
    """
    log = None
    with found.reading(folder.pool):
        log = read_log(folder, progress)
    if log is None:
        return
    wrong = (log.listed.included != log.pool.included).nonzero()[0]
    if len(wrong):
        side = "included" if log.listed.included[wrong[0]] else "excluded"
        words = f"canary {wrong[0]} is {side}, and by the coins of {folder.pool.name} it is not"
        if chain is not None:
            found.add(folder.canaries, words)
        else:
            found.note(f"{folder.canaries.name}: {words}: somebody else decided who takes part")
    if log.num_rounds == 0:
        found.note("the folder shows no round")
        return
    if chain is not None and not chain.is_scored:
        found.note("rounds were logged behind the last scores, which are not compared")
        return
    with found.reading(folder.round_cosines):
        scored = score_log(log)
        for name, made in scored.scores.items():
            path = folder.scores(name)
            with found.reading(path):
                if path.exists():
                    compare_scores(path, made, found)
        names = {folder.scores(name).name for name in scored.scores}
        left = [p.name for p in sorted(folder.path.glob("scores_*.csv")) if p.name not in names]
        if left:
            found.note(f"not made again, as the folder has no models: {', '.join(left)}")
