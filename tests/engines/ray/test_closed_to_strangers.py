"""What strangers see of a Ray that is started here: no port but on the loopback, and no way in."""

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.started_programs import wait_for

pytest.importorskip("ray.util")
pytestmark = pytest.mark.slow

NOBODY = 65_534
LISTENING = "0A"
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
"""127.0.0.1, the same mapped into IPv6, and ::1, as /proc/net writes them on a little-endian
machine."""

STRANGER = """
import os, sys
head, *ports = sys.argv[2:]
if sys.argv[1] == "wrong token":
    os.environ["RAY_AUTH_MODE"], os.environ["RAY_AUTH_TOKEN"] = "token", "0" * 64
import grpc
from ray._raylet import GcsClient
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
def asked(question):
    try:
        question()
    except Exception as error:
        return str(error.code()) if isinstance(error, grpc.RpcError) else type(error).__name__
    return "let in"
print(asked(lambda: GcsClient(address=head).internal_kv_keys(b"", namespace=None)))
print(asked(lambda: GcsClient(address=head).internal_kv_put(b"key", b"value", True, b"fun")))
shown = [("authorization", "Bearer " + "0" * 64)] if sys.argv[1] == "wrong token" else []
for port in ports:
    channel = grpc.insecure_channel("127.0.0.1:" + port)
    for method in (
        "NodeManagerService/GetNodeStats",
        "ObjectManagerService/FreeObjects",
        "CoreWorkerService/GetCoreWorkerStats",
        "InternalKVGcsService/InternalKVGet",
    ):
        call = channel.unary_unary("/ray.rpc." + method)
        print(port, asked(lambda: call(b"", metadata=shown, timeout=10)))
"""


@pytest.fixture(scope="module")
def started():
    """Ray's module with an actor at work, and its folder: (module, folder)."""
    from fl_audit.engines.ray.cluster import ray_on_this_machine

    def process():
        return os.getpid()

    with ray_on_this_machine(num_cpus=1, store_bytes=80 * 2**20) as ray:
        assert ray.get(ray.remote(process).remote()) != os.getpid()
        yield ray, Path(os.environ["RAY_AUTH_TOKEN_PATH"]).parent


def without_ray(environment) -> dict[str, str]:
    """The environment of somebody who was told nothing of Ray."""
    return {name: value for name, value in environment.items() if not name.startswith("RAY_")}


def descendants(ancestor: int) -> set[int]:
    """The processes that a process has started, itself included."""
    found, parents = {ancestor}, {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(status.parent.name)] = int(status.read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def sockets_of(processes: set[int]) -> dict[str, str]:
    """The addresses, as hexadecimal `ip:port`, on which processes listen, by inode."""
    inodes = set()
    for process in processes:
        for descriptor in Path(f"/proc/{process}/fd").iterdir():
            try:
                inodes.add(str(descriptor.readlink()))
            except OSError:
                continue
    found = {}
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and f"socket:[{fields[9]}]" in inodes:
                found[fields[9]] = fields[1]
    return found


def test_no_socket_listens_beyond_the_loopback(started):
    del started

    def found() -> set[str]:
        return set(sockets_of(descendants(os.getpid())).values())

    # Head, raylet twice, its agent, the actor, this program; not all are there at once.
    wait_for(lambda: len(found()) >= 6, seconds=60.0)
    assert {address.split(":")[0] for address in found()} <= LOOPBACK


def test_a_socket_on_every_interface_would_be_seen():
    with socket.socket() as other:
        other.bind(("0.0.0.0", 0))
        other.listen()
        found = sockets_of({os.getpid()})
    assert any(address.startswith("00000000:") for address in found.values())


def test_the_folder_and_the_token_are_this_users_alone(started):
    _, folder = started
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    token = folder / "token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    assert len(bytes.fromhex(token.read_text())) == 32
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not any(token.read_bytes() in line for line in lines)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
@pytest.mark.parametrize("shows", ["no token", "wrong token"])
def test_another_user_gets_nothing(started, shows):
    ray, folder = started
    address = ray.get_runtime_context().gcs_address
    found = sockets_of(descendants(os.getpid())).values()
    ports = [str(int(socket_at.split(":")[1], 16)) for socket_at in found]
    command = [sys.executable, "-c", STRANGER, shows, address, *ports]
    environment = without_ray(os.environ)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    reading, writing, *others = done.stdout.splitlines()
    assert reading == writing == "AuthenticationError", done.stderr
    said = [line.split() for line in others]
    # A port that knows a method refuses; others know no such method, or speak HTTP.
    refused = {port for port, code in said if code == "StatusCode.UNAUTHENTICATED"}
    assert len(refused) >= 5  # the head, the raylet twice, the actor, this program
    assert {code for _, code in said} <= {
        "StatusCode.UNAUTHENTICATED",
        "StatusCode.UNIMPLEMENTED",
        "StatusCode.UNAVAILABLE",
    }
    listing = ["ls", str(folder)]
    seen = subprocess.run(listing, user=NOBODY, group=NOBODY, extra_groups=[], check=False)
    assert seen.returncode != 0


def test_a_run_without_the_clusters_token_is_told_so(started):
    ray, _ = started
    program = """
import sys
from fl_audit.errors import InputError
from fl_audit.engines.ray.cluster import ray_at
try:
    with ray_at(sys.argv[1]):
        print("let in")
except InputError as error:
    print(error)
"""
    command = [sys.executable, "-c", program, ray.get_runtime_context().gcs_address]
    environment = without_ray(os.environ)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "asks for a token, and this program has none or a wrong one" in done.stdout
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


def test_nothing_is_left_and_a_second_one_asks_for_another_token(started):
    """Two after each other in a process: Ray itself reads a token only once."""
    del started
    program = """
import os
from pathlib import Path
from fl_audit.engines.ray.cluster import ray_on_this_machine
process = lambda: os.getpid()
for _ in range(2):
    with ray_on_this_machine(1, 80 * 2**20) as ray:
        path = Path(os.environ["RAY_AUTH_TOKEN_PATH"])
        print(path.read_text(), ray.get(ray.remote(process).remote()) != os.getpid())
    assert not path.parent.exists() and "RAY_AUTH_TOKEN_PATH" not in os.environ
"""
    command, environment = [sys.executable, "-c", program], without_ray(os.environ)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    first, second = (line.split() for line in done.stdout.splitlines())
    assert first[0] != second[0]
    assert first[1] == second[1] == "True"
    assert done.stderr == ""


READER = """
import os, subprocess, sys
from pathlib import Path
from fl_audit.engines.ray.cluster import ray_on_this_machine
from tests.started_programs import processes_of
with ray_on_this_machine(1, 80 * 2**20):
    folder = Path(os.environ["RAY_AUTH_TOKEN_PATH"]).parent
    line = [sys.executable, "-c", "import time; time.sleep(600)", str(folder)]
    reader = subprocess.Popen(line, stdout=subprocess.DEVNULL)
    of_ray = len(processes_of(f"TMPDIR={folder}"))
ended = reader.poll()
reader.kill()
print(of_ray > 3, ended, folder.exists(), processes_of(f"TMPDIR={folder}"))
"""


def test_only_processes_of_ray_end_with_it():
    """Whoever has its folder in a command line, such as an editor of a log there, goes on."""
    made = subprocess.run(
        [sys.executable, "-c", READER], capture_output=True, text=True, check=False
    )
    assert made.stdout == "True None False []\n", made.stderr
