"""A page in headless Chromium, driven over a pipe by the DevTools protocol."""

import base64
import itertools
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

PROGRAM = "chromium"

_OPTIONS = "--headless=new --no-sandbox --disable-gpu --no-first-run --remote-debugging-pipe"
_TIMEOUT = 60
"""Seconds after which a browser that says nothing is ended, and reading from it fails."""


class Chromium:
    """One tab of a browser that ends with the `with` block.

    Attributes:
      errors: What the page has written to the console as an error, and exceptions.
    """

    def __init__(self, profile: Path) -> None:
        self.errors: list[str] = []
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        command = f"exec {PROGRAM} {_OPTIONS} --user-data-dir='{profile}' about:blank"
        self._process = subprocess.Popen(
            [
                "timeout",
                str(_TIMEOUT),
                "bash",
                "-c",
                f"{command} 3<&{to_browser} 4>&{from_browser}",
            ],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._numbers, self._rest, self._session = itertools.count(1), b"", ""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    def __enter__(self) -> "Chromium":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._write)  # a browser whose pipe is closed ends itself
        os.close(self._read)
        self._process.terminate()
        self._process.wait()

    def open(self, page: Path, width: int, style: str) -> None:
        """Opens a file in a window of a width in pixels, `light` or `dark`."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            **{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False},
        )
        features = [{"name": "prefers-color-scheme", "value": style}]
        self._call("Emulation.setEmulatedMedia", features=features)
        self._call("Page.navigate", url=page.resolve().as_uri())
        while self._message().get("method") != "Page.loadEventFired":
            pass

    def press(self, key: str) -> None:
        """Presses and releases Tab or Enter."""
        code, text = {"Tab": (9, ""), "Enter": (13, "\r")}[key]
        names = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self._call("Input.dispatchKeyEvent", type="keyDown", text=text, **names)
        self._call("Input.dispatchKeyEvent", type="keyUp", **names)

    def value(self, script: str) -> Any:
        """The value of an expression of JavaScript on the page."""
        found = self._call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def printed_pages(self) -> int:
        """The number of pages on which the open page is printed, of the size that it names."""
        pdf = base64.b64decode(self._call("Page.printToPDF", preferCSSPageSize=True)["data"])
        return len(re.findall(rb"/Type\s*/Page\b", pdf))

    def _call(self, method: str, **params: object) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == number:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            read = os.read(self._read, 1 << 20)
            assert read, "the browser has ended"
            self._rest += read
        text, self._rest = self._rest.split(b"\0", 1)
        message = json.loads(text)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, event: str | None, params: dict[str, Any]) -> None:
        if event == "Runtime.exceptionThrown":
            self.errors.append(str(params["exceptionDetails"]))
        if event == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.errors.append(str(params["args"]))
        if event == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])
