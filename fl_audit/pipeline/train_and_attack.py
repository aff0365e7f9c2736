"""An attack on a task's models from start to end: train, choose members, challenge, report."""

from pathlib import Path
from typing import TYPE_CHECKING

from fl_audit.config.attack_tables import AttackConfig, FederatedAttackConfig
from fl_audit.config.file import config_to_toml
from fl_audit.engines.environment import set_tensorflow_defaults
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.text_files import write_text
from fl_audit.pipeline import attack_bases
from fl_audit.pipeline.runs import at_work
from fl_audit.report.attack import AttackReport
from fl_audit.run.training_folder import check_new, check_resumable

if TYPE_CHECKING:
    from fl_audit.engines.tff.shadow_models import AfterBlock


def start_attack(
    config: AttackConfig | FederatedAttackConfig, out: Path, after_block: "AfterBlock"
) -> AttackReport:
    """Trains and attacks in a new or empty folder; `after_block` reports progress."""
    check_new(out)
    return _attack(config, out, after_block)


def continue_attack(
    config: AttackConfig | FederatedAttackConfig, out: Path, after_block: "AfterBlock"
) -> AttackReport:
    """Resumes an interrupted attack; trained models are not trained again."""
    check_resumable(out, config)
    return _attack(config, out, after_block)


def _attack(
    config: AttackConfig | FederatedAttackConfig, out: Path, after_block: "AfterBlock"
) -> AttackReport:
    """Trains the missing models, then writes all results."""
    set_tensorflow_defaults()
    models = out / "models"
    target = _target_of(config, models, after_block)
    with at_work(RunFolder(out)) as folder:
        write_text(folder.config, config_to_toml(config))
        models.mkdir(exist_ok=True)
        chosen = attack_bases.choose_members(target)
        bases = [
            attack_bases.attack_base(target, number, int(member))
            for number, member in enumerate(chosen.worst.points)
        ]
        scores = attack_bases.score_files(bases)
        report = attack_bases.make_report(target, scores, chosen, bases)
        attack_bases.write_results(out, scores, chosen, report)
    return report


def _target_of(
    config: AttackConfig | FederatedAttackConfig, models: Path, after_block: "AfterBlock"
) -> attack_bases.Target:
    if isinstance(config, FederatedAttackConfig):
        from fl_audit.pipeline.attack_targets import AttackedClients

        return AttackedClients(config, models, after_block)
    from fl_audit.pipeline.attack_targets import AttackedPoints

    return AttackedPoints(config, models, after_block)
