"""A copy of the project that is small enough to run, and short ways to run, change and damage it."""

import contextlib
import os
import resource
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CARRIED = "electra pipelines .dvc .dvc-site/repo/.gitignore dvc.yaml prefect.toml .dvcignore .gitignore".split()

ONE = {"OMP_NUM_THREADS": "1", "ELECTRA_WORKERS": "1"}  # tests run at the same time

SMOKE = """
run: {models: [smoke], ablations: []}
tracking: none
corpora:
  smoke: {sources: [{kind: local, files: ["text/*.txt"], documents: blank_lines}]}
  absent: {sources: [{kind: local, files: ["nowhere/*.jsonl"]}]}
tokenizers:
  smoke: {kind: train, vocab_size: 200}
tokens:
  smoke: {corpus: smoke, tokenizer: smoke, lengths: [16], valid_fraction: 0.2}
  absent: {corpus: absent, tokenizer: smoke, lengths: [16]}
tasks:
  smoke: {kind: sample, seed: 1}
encoders:
  smoke: {layers: 1, hidden: 16, heads: 2, ffn: 32, embedding: 16}
recipes:
  paper: {}
  smoke: {}
models:
  smoke:
    tokens: smoke
    encoder: smoke
    generator: {width: 0.5}
    pretrain: {length: 16, batch: 8, steps: 20, warmup: 2, learning_rate: 1.0e-3, threads: 1, precision: fp32,
               log_every: 2, eval_every: 10, eval_batches: 2, save_every: 5}
  base:
    tokens: absent
    encoder: smoke
    pretrain: {length: 16, batch: 8, steps: 20, warmup: 2, learning_rate: 1.0e-3}
published: {}
finetunings:
  smoke: {model: smoke, tasks: smoke, recipe: smoke, arms: [pretrained, scratch]}
  base: {model: base, tasks: smoke, recipe: paper}
protocols: {smoke: {}}
ablations: {}
"""


def read_text(name):
    """The text of a file of this project."""
    return (ROOT / name).read_text()


def copy_project(folder):
    """Copy the files that a run needs, and put the smoke model in place of the shipped ones."""
    folder.mkdir(parents=True)
    skipped = shutil.ignore_patterns("__pycache__", "cache", "tmp", "config.local", "dvc.lock")
    for name in CARRIED:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=skipped)
        else:
            shutil.copy(ROOT / name, folder / name)
    (folder / "params.yaml").write_text(SMOKE)
    copy_text(folder)
    (folder / ".dvc" / "config.local").write_text("[core]\n    no_scm = true\n")
    return folder


def git_project(folder):
    """The same as a git repository of one commit, with outputs of its runs left to DVC."""
    copy_project(folder)
    (folder / ".dvc" / "config.local").unlink()
    shutil.copy(ROOT / ".dvc" / ".gitignore", folder / ".dvc" / ".gitignore")
    shutil.copytree(ROOT / ".dvc-site", folder / ".dvc-site", dirs_exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    commit(folder, "One")
    return folder


def git(folder, *words):
    """Return git's output; it has to succeed."""
    who = ["-c", "user.name=Tester", "-c", "user.email=tester@example.com"]
    command = ["git", "-C", str(folder), *who, *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def commit(folder, message):
    """Commit all that is there."""
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)


def edit(file, old, new):
    """Replace the first place of a text in a file."""
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def copy_text(folder):
    """The smoke corpus: sixty made-up documents in one file."""
    (folder / "text").mkdir()
    words = "the old miller keeps a grey cat and sells good bread in a small town near some river".split()
    documents = []
    for number in range(60):
        starts = [number * 7 + line * 3 for line in range(6)]
        lines = [[words[(start + k * k) % len(words)] for k in range(9)] for start in starts]
        documents.append("\n".join(" ".join(line) + "." for line in lines))
    (folder / "text" / "a.txt").write_text("\n\n".join(documents))


def environment(folder, **more):
    """Return the environment of a process in a copied project: a fresh shell's, and its own code
    and state.

    The last two are what a `.venv` of its own would give it.
    """
    values = {name: os.environ[name] for name in ("HOME", "LANG", "TERM") if name in os.environ}
    return {
        **values,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(folder),
        "PREFECT_HOME": f"{folder}/.prefect",
        "DVC_SITE_CACHE_DIR": f"{folder}/.dvc-site",
        **ONE,
        **more,
    }


def make_venv(folder):
    """Make the `.venv` that `make setup` makes in a copied project, from the packages of this
    Python's; in a second.
    """
    venv = folder / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    site = next(venv.glob("lib/python*/site-packages"))
    (site / "a_project.pth").write_text(f"{folder}\n")
    (site / "packages.pth").write_text(
        f"{sysconfig.get_path('purelib')}\n"
    )  # a plain path: their .pth files stay unread
    for script in filter(Path.is_file, Path(sys.executable).parent.iterdir()):
        place = venv / "bin" / script.name
        with script.open("rb") as file:
            if place.exists() or file.read(2) != b"#!":
                continue
        lines = script.read_text().splitlines(keepends=True)
        place.write_text("".join([f"#!{venv}/bin/python\n", *lines[1:]]))
        place.chmod(0o755)
    subprocess.run([venv / "bin" / "python", folder / "pipelines" / "environment.py"], check=True)
    return venv


def run(folder, *words, code=0, **more):
    """Python with these words in a copied project; it has to end with `code`, unless that is None."""
    values = environment(folder, **more)
    command = [sys.executable, *words]
    done = subprocess.run(
        command, cwd=folder, env=values, capture_output=True, text=True, timeout=600
    )
    assert code is None or done.returncode == code, done.stdout + done.stderr
    return done


def free_port():
    """A port of this machine that nobody listens at."""
    with socket.socket() as answer:
        answer.bind(("127.0.0.1", 0))
        return int(answer.getsockname()[1])


def until(condition, seconds=300, tell=str):
    """Ask again and again until there is something; fails with what `tell` says."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < deadline, tell()
        time.sleep(0.1)
    return answer


def files_of(folder):
    """The bytes of every file below a folder, by its path there."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in Path(folder).rglob("*")
        if path.is_file()
    }


def each_with_some(files, harms):
    """Pairs in which every file meets three harms at least, and every harm some file: not all with
    all.
    """
    count = max(3, -(-len(harms) // len(files)))
    return [
        (file, harms[(place * count + more) % len(harms)])
        for place, file in enumerate(files)
        for more in range(count)
    ]


def harm(path, how):
    """Damage a file: `flipped` in one bit, `cut`, `empty`, all `zero`, a `folder`, `missing`."""
    data = path.read_bytes()
    spoilt = {"flipped": data[:-9] + bytes([data[-9] ^ 1]) + data[-8:], "cut": data[:-2]}
    spoilt |= {"empty": b"", "zero": bytes(len(data))}
    path.unlink()
    if how in spoilt:
        path.write_bytes(spoilt[how])
    elif how == "folder":
        path.mkdir()


@contextlib.contextmanager
def largest_file(size):
    """A disk that is full as soon as a file has so many bytes: the kernel's own refusal."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def progress(step, **fields):
    """Return the record of a checkpoint that has learnt nothing."""
    spent = {"step": step, "tokens": 0, "flops": 0, "stage": "joint", "fingerprint": {}}
    return spent | {"history": [], "continued": [], "code": []} | fields
