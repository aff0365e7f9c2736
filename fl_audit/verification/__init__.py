"""Whether what a folder says follows from its logs; no data, and no TensorFlow, is needed.

`verify_folder` reads a finished run or a log, makes all that can be made again from its seed, its
models and its rounds, names what does not fit, and which scores could not be made again.
docs/verify.md says what that shows, and what it does not.
"""

from fl_audit.verification.findings import Finding, Verified
from fl_audit.verification.verify import NOT_SHOWN, verify_folder

__all__ = ["NOT_SHOWN", "Finding", "Verified", "verify_folder"]
