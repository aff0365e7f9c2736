"""pfl's BandedMatrixFactorizationMechanism: a user who takes part once counts up to 1.74 times.

It releases x + C^-1 z. Who sees all of it sees C x + z, so that a user of one iteration is
protected by the noise over the norm of its column of C. The accountant is asked for compositions of
sensitivity 1, and the factorizer makes a gram matrix X = C^T C with ones on its diagonal, which
are those norms. But numpy.linalg.cholesky(X) is the L of X = L L^T: its rows have norm 1, not its
columns.

    pip install pfl==0.6.0 torch && python pfl_banded.py
"""

import contextlib
import tempfile

import numpy as np
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
from pfl.internal.ops import pytorch_ops
from pfl.internal.ops.selector import set_framework_module
from pfl.privacy.ftrl_mechanism import BandedMatrixFactorizationMechanism
from pfl.privacy.privacy_accountant import PLDPrivacyAccountant

NOISE, DELTA = 1.0, 1e-5


def accountant(num_compositions: int) -> PLDPrivacyAccountant:
    """Whom the mechanism asks."""
    return PLDPrivacyAccountant(
        num_compositions=num_compositions,
        sampling_probability=1.0,
        mechanism="gaussian",
        delta=DELTA,
        noise_parameter=NOISE,
    )


set_framework_module(pytorch_ops)
print("iterations  norms of rows  norms of columns  stated ε  exact ε")
for iterations in (4, 16, 40):
    with contextlib.chdir(tempfile.mkdtemp()):  # it saves its matrix
        made = BandedMatrixFactorizationMechanism(1.0, iterations, iterations, accountant)
    rows, columns = (np.linalg.norm(made.query_matrix, axis=axis) for axis in (1, 0))
    exact = from_gaussian_mechanism(NOISE / columns.max()).get_epsilon_for_delta(DELTA)
    print(
        f"{iterations:10}  {rows.min():.2f} to {rows.max():.2f}   "
        f"{columns.min():.2f} to {columns.max():.2f}      "
        f"{accountant(1).epsilon:.2f}      {exact:.2f}"
    )
