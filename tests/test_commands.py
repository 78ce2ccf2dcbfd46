"""Every command of the pages, typed as it stands into a fresh shell, in a small clone with servers
of its own.

The shell has HOME, PATH, LANG and TERM and no other variable, and a network of its own, so that the
ports are those that the pages name. tests/support/pages.py says which commands are run, and why the others
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

from tests.support import pages
from tests.support.project import ROOT, commit, copy_text, git, make_venv

FIRST = ROOT / "docs" / "operate.md"  # starts the servers that others need
READ = [FIRST, ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
READ = list(dict.fromkeys(READ))
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
    tests/support/pages.py.
    """
    assert [command for command in pages.typed(page) if pages.treatment(command) is None] == []


class Reader:
    """Somebody with a fresh shell in a clone of the project."""

    def __init__(self, folder, network):
        self.folder = folder
        self.network = network
        self.variables = {
            "HOME": str(folder.parent),
            "PATH": os.pathsep.join(
                part
                for part in os.environ["PATH"].split(os.pathsep)
                if part != str(Path(sys.executable).parent)
            ),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
        }
        self.servers: dict[str, tuple[subprocess.Popen[bytes], Path]] = {}

    def start(self, command, log):
        script = f"source .venv/bin/activate\n{command}\n"
        with log.open("wb") as file:
            return subprocess.Popen(
                [*self.network, "bash", "-c", script],
                cwd=self.folder,
                env=self.variables,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def type(self, command, seconds=900):
        """Return the exit code of a command and what it printed."""
        log = self.folder.parent / "command.log"
        process = self.start(command, log)
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = 124
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        return code, log.read_text(errors="replace")

    def serve(self, command):
        """Start a server and wait until it answers; returns what is wrong."""
        log = self.folder.parent / f"server-{len(self.servers)}.log"
        process = self.start(command, log)
        self.servers[command] = process, log
        address = pages.SERVERS[pages.first_match(command, pages.SERVERS) or ""]
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline and process.poll() is None:
            printed = log.read_text(errors="replace")
            if command == "make worker" and "started!" in printed:
                return ""
            place = (
                re.search(r"http://127\.0\.0\.1:\d+/", printed) if address == "printed" else None
            )
            url = place[0] if place else address
            if url.startswith("http") and self.type(f"python -c {pages.ASK!r} {url}", 30)[0] == 0:
                return ""
            time.sleep(1)
        return f"{command}: no answer\n{log.read_text(errors='replace')[-3000:]}"

    def stop(self, command):
        """Stop a server; returns what is wrong in what it has printed until then."""
        process, log = self.servers.pop(command)
        printed = LOCKED.sub("", log.read_text(errors="replace"))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
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
        if process.stdout.readline() != b"up\n":
            pytest.skip("the kernel does not let us")
        yield ["nsenter", f"--net=/proc/{process.pid}/ns/net"]
    finally:
        process.kill()
        process.communicate()


def clone(folder):
    """Make a small clone of the project, as it is here, with an environment of its own and an
    origin.
    """
    folder.mkdir(parents=True)
    for name in git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split(
        "\0"
    ):
        path = ROOT / name
        if (
            path.is_file()
            and not name.startswith((".venv", "results/"))
            and path.name != "dvc.lock"
        ):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, folder / name)
    copy_text(folder)
    pages.write_settings(folder)
    pages.write_data(folder)
    (folder.parent / ".gitconfig").write_text(
        "[user]\n  name = Reader\n  email = reader@example.com\n"
    )
    git(folder, "init", "-q", "-b", "main")
    commit(folder, "One")
    git(folder, "clone", "-q", "--bare", str(folder), str(folder.parent / "origin.git"))
    git(folder, "remote", "add", "origin", str(folder.parent / "origin.git"))
    furnish(folder)
    return folder


def furnish(folder):
    """Create the outputs of `make setup`, so that it finds nothing to do."""
    make_venv(folder)
    sources = "cat requirements.lock pyproject.toml pipelines/environment.py | cksum"
    line = f"{{ readlink -f .venv; {sources}; }} > .venv/.set-up"
    subprocess.run(["bash", "-c", line], cwd=folder, check=True)


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
        stays = command in pages.STAY
        return wrong if stays else wrong or reader.stop(command)
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
                    started = time.monotonic()
                    answer = try_command(reader, command)
                    print(
                        f"{time.monotonic() - started:4.0f} s  {page.name}  {answer or command}",
                        flush=True,
                    )
                    wrong += [f"{page.name}: {answer}"] * bool(answer)
                    done.add(command)
        wrong += wait_for_flows(reader)
    finally:
        for command in reversed(list(reader.servers)):
            wrong += filter(None, [reader.stop(command)])
    assert not wrong, "\n\n".join(wrong)


def wait_for_flows(reader):
    """Wait until no flow run is under way; returns what is wrong with those that have ended."""
    deadline = time.monotonic() + 1200
    while True:
        code, printed = reader.type("prefect flow-run ls --limit 50 --output json")
        if code:
            return [printed]
        states = {run["name"]: run["state_type"] for run in json.loads(printed)}
        if set(states.values()) == {"COMPLETED"}:
            return []
        if (
            not {"SCHEDULED", "PENDING", "RUNNING"} & set(states.values())
            or time.monotonic() > deadline
        ):
            return [f"flow runs: {states}"]
        time.sleep(5)
