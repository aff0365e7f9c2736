"""Audits DP-SGD in Opacus: canary gradients join the per-sample gradients of a step.

A canary is an example whose gradient is a random vector, longer than the clip norm. Opacus clips
it, adds it to the sum and adds noise, as for any other example::

    model, optimizer, loader = privacy_engine.make_private(module=model, ...)
    audit = CanaryGradients(
        optimizer, "audit", num_steps=epochs * len(loader), seed=seed,
        sample_rate=loader.sample_rate,
    )
    ...  # train
    audit.finish()
    write_claim(privacy_engine, "claim.csv")

Neither TensorFlow nor, before an optimizer is audited, PyTorch is imported; examples/opacus has a
complete training.
"""

import importlib.metadata
from pathlib import Path
from typing import Any

import numpy as np

from fl_audit.attacks import framework_adapter
from fl_audit.attacks.arrays import flatten
from fl_audit.canaries.pool import CanaryPool
from fl_audit.config_tables.audit import LostCanaries
from fl_audit.errors import InputError


class CanaryGradients:
    """Canaries in an Opacus optimizer, with every step scored.

    Create it after `PrivacyEngine.make_private`, in one process and with any `grad_sample_mode` but
    `ghost`. A step over several physical batches (`BatchMemoryManager`) counts as one.

    An error of the audit never stops the training: it is logged (logger `fl_audit`) and noted in
    the folder, and the step is left out. Lost canaries cause a warning, or end the training
    (`lost_canaries`).

    Attributes:
      scorer: The scorer of the steps.
    """

    def __init__(
        self,
        optimizer: Any,
        folder: Path | str,
        *,
        num_steps: int,
        seed: int,
        sample_rate: float | None = None,
        repeats: int = 1,
        count: int = 1000,
        family: str = "rademacher",
        steps_before: int = 0,
        lost_canaries: LostCanaries = "warn",
    ) -> None:
        """Adds canaries to an optimizer's steps.

        Args:
          optimizer: An Opacus `DPOptimizer` that clips per-sample gradients.
          folder: The folder of the audit, new, or this audit's own after a restart.
          num_steps: The number of steps of the training, `len(data_loader)` in each epoch.
          seed: The seed of canaries, coins and steps; every audit needs a new seed.
          sample_rate: The probability that Opacus samples an example in a step,
            `data_loader.sample_rate`. Canaries are sampled with this probability too, so that
            `PrivacyEngine.get_epsilon` holds for them. With None each canary has `repeats` steps
            known to the attacker; a claim must then do without amplification by sampling.
          repeats: The number of steps of each canary if `sample_rate` is None.
          count: The number of canaries; coins include about half.
          family: The family of the canaries' vectors (docs/canaries.md); "hadamard" is faster for
            large models.
          steps_before: The number of steps trained before this start.
          lost_canaries: Whether canaries that do not reach the gradient cause a warning ("warn") or
            end the training ("error").

        Raises:
          InputError: The optimizer does not clip per-sample gradients in this process, or has an
            adaptive clip norm of an older Opacus than 1.6; a number is out of its range; or the
            folder holds something else.
        """
        _check_optimizer(optimizer)
        if not 0 <= steps_before <= num_steps:
            raise InputError(f"steps_before: must be in 0 to {num_steps}, got {steps_before!r}")
        self._optimizer = optimizer
        dim = sum(parameter.numel() for parameter in optimizer.params)
        pool = CanaryPool(seed, count, dim, family)
        self._rounds = framework_adapter.CanaryRounds.draw(
            seed, count, num_steps, sample_rate, repeats
        )
        self.scorer = self._rounds.scorer(folder, pool, lost_canaries)
        self._step = steps_before
        self._samples, self._step_failed = 0, False
        self._audit = framework_adapter.AdapterAudit(folder)
        if not self.scorer.folder.initial.exists() and not steps_before:
            framework_adapter.keep_initial(self.scorer, self._model())
        self._clip, self._pre_step = optimizer.clip_and_accumulate, optimizer.pre_step
        optimizer.clip_and_accumulate = self._clip_with_canaries
        optimizer.pre_step = self._scored_pre_step

    def finish(self) -> None:
        """Writes the score files, and restores the optimizer."""
        self._optimizer.clip_and_accumulate = self._clip
        self._optimizer.pre_step = self._pre_step
        with self._audit.errors_logged("the score files"):
            framework_adapter.finish_audit(self.scorer, self._model())

    def _clip_with_canaries(self) -> None:
        """Clips a physical batch; in the first batch of a step, also the step's canaries."""
        if self._optimizer.params[0].summed_grad is None:
            self._samples = 0
            with self._audit.errors_logged(f"the canaries of step {self._step + 1}") as adding:
                self._add_canaries()
            self._step_failed = adding.failed
        with self._audit.errors_logged(f"the size of step {self._step + 1}") as counting:
            self._samples += sum(map(len, _batches(self._optimizer.params[0])))
        self._step_failed |= counting.failed
        self._clip()

    def _scored_pre_step(self, closure: Any = None) -> Any:
        """Performs a step up to its noised gradient, which is scored if the step is whole."""
        clip_norm = float(self._optimizer.max_grad_norm)  # under adaptive clipping it changes
        is_whole = self._pre_step(closure)
        if is_whole:
            if not self._step_failed:
                with self._audit.errors_logged(f"step {self._step + 1}"):
                    self._score(clip_norm)
            self._step += 1
        return is_whole

    def _add_canaries(self) -> None:
        """Appends the step's canaries to all per-sample gradients; to none if an error occurs."""
        import torch

        pool, params = self.scorer.pool, self._optimizer.params
        if self._step >= self.scorer.num_rounds:
            return
        canaries = self._rounds.included_in(self._step, pool)
        if not canaries:
            return
        norm = framework_adapter.TIMES_CLIP_NORM * float(self._optimizer.max_grad_norm)
        # The sign is negative, as the model moves against the gradient.
        gradients = -norm * np.stack([pool.vector(canary) for canary in canaries])
        ends = np.cumsum([parameter.numel() for parameter in params])[:-1]
        longer = []
        for parameter, part in zip(params, np.split(gradients, ends, axis=1), strict=True):
            *others, last = _batches(parameter)
            rows = last.new_tensor(part).reshape(len(canaries), *parameter.shape)
            longer.append([*others, torch.cat([last, rows])])
        for parameter, batches in zip(params, longer, strict=True):
            is_list = isinstance(parameter.grad_sample, list)
            parameter.grad_sample = batches if is_list else batches[0]

    def _score(self, clip_norm: float) -> None:
        if self._step >= self.scorer.num_rounds:
            raise InputError(f"num_steps: the audit has room for {self.scorer.num_rounds} steps")
        optimizer = self._optimizer
        denominator = 1.0
        if optimizer.loss_reduction == "mean":
            denominator = optimizer.expected_batch_size * optimizer.accumulated_iterations
        stated = {"canary_length": clip_norm / denominator}
        stddev = _noise_multiplier(optimizer) * clip_norm / denominator
        if stddev > 0:
            stated["noise_stddev"] = stddev
            stated["norm_bound"] = self._samples * clip_norm / denominator
        moved = [-parameter.grad.detach().cpu().float().numpy() for parameter in optimizer.params]
        self.scorer.score_round(self._step + 1, moved, **stated)

    def _model(self) -> Any:
        """The parameters as one vector, float32 of shape (dim,)."""
        parts = [p.detach().cpu().float().numpy() for p in self._optimizer.params]
        return flatten(parts, sum(part.size for part in parts), "model")


def write_claim(privacy_engine: Any, path: Path | str) -> None:
    """Writes the epsilon of `PrivacyEngine.get_epsilon` at 25 deltas, after the training.

    The file is for `fl-audit estimate --claimed-profile`. Raises InputError if no epsilon is
    finite.
    """
    framework_adapter.write_profile(privacy_engine.get_epsilon, path)


def _check_optimizer(optimizer: Any) -> None:
    """Raises InputError for an optimizer that cannot be audited."""
    if not hasattr(optimizer, "clip_and_accumulate") or hasattr(optimizer, "world_size"):
        raise InputError(
            "optimizer: must be a DPOptimizer of opacus, in one process, as made by "
            f"PrivacyEngine.make_private, got {type(optimizer).__name__}"
        )
    if "FastGradientClipping" in type(optimizer).__name__:
        raise InputError(
            "optimizer: ghost clipping has no per-sample gradients; must be made with "
            "another grad_sample_mode, such as 'hooks'"
        )
    if hasattr(optimizer, "unclipped_num_std"):
        # Before 1.6, `noise_multiplier` was that of the noise on gradients (`_noise_multiplier`).
        version = importlib.metadata.version("opacus")
        if tuple(map(int, version.split(".")[:2])) < (1, 6):
            raise InputError(
                f"optimizer: needs opacus 1.6 or later for an adaptive clip norm, got {version}"
            )


def _batches(parameter: Any) -> list[Any]:
    """The per-sample gradients of a parameter, a tensor for each batch since the last step."""
    samples = parameter.grad_sample
    return samples if isinstance(samples, list) else [samples]


def _noise_multiplier(optimizer: Any) -> float:
    """The standard deviation of the noise on the summed gradients, over the clip norm.

    `AdaClipDPOptimizer` adds more than its `noise_multiplier`: part of its budget is for a count
    (opacus 1.6.0, `AdaClipDPOptimizer.add_noise`).
    """
    noise = float(optimizer.noise_multiplier)
    if noise == 0 or not hasattr(optimizer, "unclipped_num_std"):
        return noise
    return float((noise**-2 - (2 * optimizer.unclipped_num_std) ** -2) ** -0.5)
