"""What TensorFlow reads from the environment when it is imported, and how TFF is left behind."""

import atexit
import os
import sys
import warnings
from typing import Any


def set_defaults() -> None:
    """Sets what the user has not set; to be called before TensorFlow is imported.

    Its C++ log is about devices and graph passes; errors still come as exceptions. One of its
    packages warns that another is old, which nobody who runs this can mend. Cores work on clients
    side by side, each on its own: on two cores 15 % more clients a second than where every
    operation is cut in two, and canaries are scored as fast.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
    warnings.filterwarnings("ignore", "pkg_resources is deprecated")
    atexit.unregister(_drop_default_context)
    atexit.register(_drop_default_context)


def _drop_default_context() -> None:
    """Drops TFF's own default context while its modules are still whole.

    Its finalizer looks for a worker to end, and prints a traceback where the interpreter has
    cleared the modules that it needs.
    """
    tff: Any = sys.modules.get("tensorflow_federated")
    if tff is None:
        return

    class NoContext(tff.framework.SyncContext):
        """Nothing runs any more."""

        def invoke(self, comp: object, arg: object) -> object:
            raise RuntimeError("the program is ending")

    tff.framework.set_default_context(NoContext())
