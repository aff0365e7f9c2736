"""Opacus 1.6.0, AdaClipDPOptimizer: the noise on the count is calibrated for a sensitivity of 1/2.

Andrew et al. (2021, theorem 1) release the sum of b_i - 1/2, to which one example adds at most 1/2;
hence (2 sigma_u)^-2 in the split of the noise. AdaClip releases the sum of b_i, to which an
example adds 0 or 1. With noise multiplier 1 and unclipped_num_std 1, one step is 1.32-GDP, not
1-GDP: epsilon 6.07 at delta 1e-5 where the accountant counts 4.38.

    pip install opacus==1.6.0 && python opacus_adaclip.py
"""

import math

import numpy as np
import torch
from opacus.optimizers import AdaClipDPOptimizer

NOISE, COUNT_STD, CLIP, OTHERS, STEPS = 1.0, 1.0, 1.0, 18, 4000


def step(included: bool) -> tuple[float, float]:
    """One step: the gradient along the canary, and the count that the new clip norm tells."""
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = AdaClipDPOptimizer(
        torch.optim.SGD([weight], lr=1.0),
        noise_multiplier=NOISE,
        max_grad_norm=CLIP,
        expected_batch_size=20,
        target_unclipped_quantile=0.5,
        clipbound_learning_rate=0.2,
        max_clipbound=1e8,
        min_clipbound=1e-8,
        unclipped_num_std=COUNT_STD,
    )
    others = [10.0, -10.0] * (OTHERS // 2)  # all clipped, and their sum is 0
    batch = [*others, 0.9999 * CLIP] if included else others  # just not clipped
    weight.grad_sample = torch.tensor(batch).reshape(-1, 1)
    optimizer.pre_step()
    fraction = 0.5 - math.log(float(optimizer.max_grad_norm) / CLIP) / 0.2
    return float(weight.grad) * 20, fraction * len(batch)


torch.manual_seed(1)
of_sum = (NOISE**-2 - (2 * COUNT_STD) ** -2) ** -0.5
shift = math.hypot(1 / of_sum, 1 / COUNT_STD)
scores = {
    included: np.array(
        [(g / of_sum**2 + c / COUNT_STD**2) / shift for g, c in map(step, [included] * STEPS)]
    )
    for included in (False, True)
}
print(f"accounted for: mu = {1 / NOISE:.2f}; by the formula: mu = {shift:.2f}")
measured = (scores[True].mean() - scores[False].mean()) / scores[False].std()
print(f"measured in {STEPS} steps each: mu = {measured:.2f} ± {math.sqrt(2 / STEPS):.2f}")
