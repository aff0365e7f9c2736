"""What Ray takes of this process as it starts: its streams, signals, environment and token."""

import contextlib
import os
import secrets
import signal
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",  # it would report that nobody collects its metrics
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # what later versions do; without it a warning
    "RAY_worker_niceness": "0",  # Ray would give way to every other program
    "RAY_prestart_worker_first_driver": "0",  # its workers would be started for nothing
}


def quiet_ray() -> Any:
    """Ray's module, imported with `_ENVIRONMENT` where that does not say otherwise already."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    import ray

    return ray


@contextlib.contextmanager
def token(path: Path) -> Iterator[None]:
    """Has the Ray that is started in the block ask for a token, which only this user can read.

    Args:
      path: The file for the token; it is removed with the folder in which it lies.
    """
    with open(path, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(secrets.token_hex(32))
    with contextlib.ExitStack() as ended:
        ended.callback(_read_token_anew)
        ended.enter_context(
            variables(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=str(path), RAY_AUTH_TOKEN=None)
        )
        _read_token_anew()
        yield


def _read_token_anew() -> None:
    """Has Ray read again whether and which token it has to show, which it does once otherwise."""
    from ray._raylet import AuthenticationTokenLoader, Config

    AuthenticationTokenLoader.instance().reset_cache()
    Config.initialize("")


def asks_for_token() -> bool:
    """Whether the Ray that this program is connected to asks for a token, as this program does."""
    from ray._raylet import AuthenticationMode, get_authentication_mode

    return bool(get_authentication_mode() != AuthenticationMode.DISABLED)


@contextlib.contextmanager
def own_signals() -> Iterator[None]:
    """Leaves SIGTERM and SIGINT with those who handled them before the block, as far as it can.

    Ray takes SIGTERM over twice: in Python, to end the program, and in C++, to print its stack.
    """
    from ray._private import utils

    if threading.current_thread() is not threading.main_thread():
        yield  # Ray leaves signals alone there
        return
    utils.set_sigterm_handler = lambda _: None
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # one of C, which Python cannot set again
                signal.signal(number, handler)


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Ray writes nothing as it starts inside the block, nor to standard output afterwards.

    Its C++ tells on standard error how it logs. A thread of its own prints warnings, such as of
    many workers or of a lost node, on standard output, whatever it was told about logs.
    """
    from ray._private import worker

    worker.listen_error_messages = lambda *_: None
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


@contextlib.contextmanager
def variables(**values: str | None) -> Iterator[None]:
    """Sets variables of the environment, or unsets them, for what is started inside the block."""
    before = {name: os.environ.get(name) for name in values}
    _set_variables(values)
    try:
        yield
    finally:
        _set_variables(before)


def _set_variables(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
