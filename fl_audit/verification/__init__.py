"""Verification that a folder's results follow from its logs, without data or TensorFlow.

`verify_folder` recomputes the results of a finished run or a log from its seed, models and rounds
as far as possible. It reports differences, and scores that could not be recomputed. docs/verify.md
explains what that does and does not show.
"""

from fl_audit.verification.findings import Finding, Verified
from fl_audit.verification.verify import NOT_SHOWN, WITHOUT_LINK, verify_folder

__all__ = ["NOT_SHOWN", "WITHOUT_LINK", "Finding", "Verified", "verify_folder"]
