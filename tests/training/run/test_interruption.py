import os
import signal

import pytest

from fl_audit.run.loop import stop_request


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_remembered_and_then_no_longer_caught(number):
    before = signal.getsignal(number)
    with stop_request() as request:
        assert request.signal_number is None
        os.kill(os.getpid(), number)
        assert request.signal_number == number
        assert signal.getsignal(number) is signal.SIG_DFL
    assert signal.getsignal(number) is before
