"""Which attacked points have a picture."""

import numpy as np
import pytest

from fl_audit.report.attack import AttackedMember, _picture


@pytest.mark.parametrize(
    ("shape", "is_picture"),
    [
        ((64,), True),
        ((6, 8, 1), True),
        ((6, 8, 3), True),
        ((30,), False),
        ((9,), False),
        ((6, 8), False),
        ((3, 8, 3), False),
        ((6, 8, 2), False),
        (None, False),
    ],
)
def test_images_have_a_picture(shape, is_picture):
    features = None if shape is None else np.random.default_rng(0).random(shape)
    member = AttackedMember(1, {"label": 2}, features, accuracy=1.0, separation=2.0)
    assert (_picture(member) is not None) == is_picture
