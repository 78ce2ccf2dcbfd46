"""Every command of the pages, typed as it stands into a fresh shell, in a small clone with servers
of its own.

The shell has HOME, PATH, LANG and TERM and no other variable, and a network of its own, so that the
ports are those that the pages name. tests/pages.py says which commands are run, and why the others
are not.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import pages
from tests.conftest import ROOT, commit, copy_text, git, make_venv

FIRST = ROOT / "docs" / "operate.md"  # starts the servers that others need
READ = [FIRST, ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
READ = list(dict.fromkeys(READ))
CLONED = ("--", ".", ":!results", ":!*dvc.lock", ":!.venv*")
FAULT = re.compile(r"Traceback|^\s*(error|ERROR)\b|this is a bug", re.M)
# Prefect's server on SQLite writes these when two of its loops write at once; it tries again.
LOCKED = re.compile(
    r"^\S+ \| ERROR +\| prefect\.server\S* - .*\n"
    r"(?:(?!\S+ \| [A-Z]+ ).*\n)*?.*\bdatabase is locked\n(?:(?!\S+ \| [A-Z]+ ).*\n)*",
    re.M,
)
NETWORK = """
import fcntl, socket, struct, time
fcntl.ioctl(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0x8914, struct.pack("16sh14x", b"lo", 1))  # "up"
print("up", flush=True)
time.sleep(1e6)
"""


@pytest.mark.parametrize("page", READ, ids=lambda page: page.name)
def test_every_command_of_a_page_is_one_whose_treatment_is_known(page):
    """Where this fails for a new command: see that it works as it stands, and add it to a table of
    tests/pages.py.
    """
    assert [command for command in pages.typed(page) if pages.treatment(command) is None] == []


class Reader:
    """Somebody with a fresh shell in a clone of the project."""

    def __init__(self, folder, network):
        self.folder = folder
        self.network = network
        own = str(Path(sys.executable).parent)
        path = [part for part in os.environ["PATH"].split(":") if part != own]
        self.variables = {"HOME": str(folder.parent), "PATH": ":".join(path)}
        self.variables |= {"LANG": "C.UTF-8", "TERM": "dumb"}
        self.servers = {}

    def log(self, command):
        return self.folder.parent / f"{re.sub('[^a-z]+', '-', command)[:60]}.log"

    def printed(self, command):
        return self.log(command).read_text(encoding="utf-8", errors="replace")

    def start(self, command):
        words = [*self.network, "bash", "-c", f"source .venv/bin/activate\n{command}\n"]
        places = {"cwd": self.folder, "env": self.variables, "process_group": 0}
        streams = {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT}
        with self.log(command).open("wb") as file:
            return subprocess.Popen(words, stdout=file, **streams, **places)

    def end(self, process, how, seconds):
        """Send a signal to a process and all that it started, and return its exit code."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return self.end(process, signal.SIGKILL, 60)

    def type(self, command, seconds=900):
        """Return the exit code of a command and what it printed."""
        process = self.start(command)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        return self.end(process, signal.SIGKILL, 60), self.printed(command)

    def serve(self, command):
        """Start a server and wait until it answers; returns what is wrong."""
        process = self.servers[command] = self.start(command)
        address = pages.SERVERS[pages.first_match(command, pages.SERVERS) or ""]
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline and process.poll() is None:
            printed = self.printed(command)
            if command == "make worker" and "started!" in printed:
                return ""
            shown = re.search(r"http://127\.0\.0\.1:\d+/", printed)
            url = shown[0] if shown and address == "printed" else address
            if url.startswith("http") and self.type(f"python -c {pages.ASK!r} {url}", 30)[0] == 0:
                return ""
            time.sleep(1)
        return f"{command}: no answer\n{self.printed(command)[-3000:]}"

    def stop(self, command):
        """Stop a server; returns what is wrong in what it has printed until then."""
        printed = LOCKED.sub("", self.printed(command))
        self.end(self.servers.pop(command), signal.SIGTERM, 60)
        fault = FAULT.search(printed)
        return f"{command}: {printed[max(0, fault.start() - 500) :][:3000]}" if fault else ""


@pytest.fixture
def network():
    """The words before a command that run it in a network of its own."""
    if os.geteuid() != 0:
        pytest.skip("needs the right to a network of its own")
    process = subprocess.Popen(
        ["unshare", "--net", sys.executable, "-c", NETWORK], stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        if process.stdout.readline() != b"up\n":
            pytest.skip("the kernel does not let us")
        yield ["nsenter", f"--net=/proc/{process.pid}/ns/net"]
    finally:
        process.kill()
        process.communicate()


def clone(folder):
    """Make a small clone of the project, as it is here, with an origin and what `make setup` makes."""
    folder.mkdir(parents=True)
    listed = git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard", *CLONED)
    for name in listed.split("\0"):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    copy_text(folder)
    pages.write_settings(folder)
    pages.write_data(folder)
    who = "[user]\n  name = Reader\n  email = reader@example.com\n"
    (folder.parent / ".gitconfig").write_text(who)
    git(folder, "init", "-q", "-b", "main")
    commit(folder, "One")
    git(folder, "clone", "-q", "--bare", str(folder), str(folder.parent / "origin.git"))
    git(folder, "remote", "add", "origin", str(folder.parent / "origin.git"))
    make_venv(folder)
    sources = "cat requirements.lock pyproject.toml pipelines/environment.py | cksum"
    line = f"{{ readlink -f .venv; {sources}; }} > .venv/.set-up"
    subprocess.run(["bash", "-c", line], cwd=folder, check=True)
    return folder


def try_command(reader, command):
    """Do with a command what its table says; returns what is wrong."""
    kind = pages.treatment(command)
    if kind in {None, "not run"}:
        return ""
    pages.prepare(reader.folder, command)
    if kind == "server":
        if command in reader.servers:
            return ""
        wrong = reader.serve(command)
        return wrong if command in pages.STAY else wrong or reader.stop(command)
    code, printed = reader.type(pages.here(reader.folder, command))
    expected, sentence = pages.REFUSED.get(pages.first_match(command, pages.REFUSED) or "", (0, ""))
    fault = FAULT.search(printed) if expected == 0 else re.search("Traceback", printed)
    if code != expected or sentence not in printed or fault:
        return f"{command}: exit code {code}, expected {expected} {sentence}\n{printed[-3000:]}"
    return ""


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_every_command_of_the_pages_works_as_it_stands(tmp_path, network):
    reader = Reader(clone(tmp_path / "electra"), network)
    done = set()
    wrong = []
    try:
        for page in READ:
            git(reader.folder, "reset", "-q", "--hard")
            for command in pages.typed(page):
                if command not in done or command.startswith("electra new"):
                    answer = try_command(reader, command)
                    print(f"{page.name}  {answer or command}", flush=True)
                    wrong.append(answer)
                    done.add(command)
        wrong.append(wait_for_flows(reader))
    finally:
        wrong += [reader.stop(command) for command in reversed(list(reader.servers))]
    assert not any(wrong), "\n\n".join(filter(None, wrong))


def wait_for_flows(reader):
    """Wait until no flow run is under way; returns what is wrong with those that have ended."""
    deadline = time.monotonic() + 1200
    while True:
        code, printed = reader.type("prefect flow-run ls --limit 50 --output json")
        if code:
            return printed
        states = {run["name"]: run["state_type"] for run in json.loads(printed)}
        if set(states.values()) == {"COMPLETED"}:
            return ""
        waits = {"SCHEDULED", "PENDING", "RUNNING"} & set(states.values())
        if not waits or time.monotonic() > deadline:
            return f"flow runs: {states}"
        time.sleep(5)
