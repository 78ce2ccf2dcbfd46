"""What the pages show: their settings, which of their commands tests/test_commands.py runs, which it
does not and why, and the small project in which they run.
"""

import re
import shutil

from dvc.utils.serialize import dumps_yaml
from ruamel.yaml import YAML

from electra.files import write_jsonl
from tests.support.project import ROOT, SMOKE, commit

# Commands that run until they are stopped, and where they answer.
SERVERS = {
    r"make server": "http://127.0.0.1:4200/api/health",
    r"make worker": "",
    r"mlflow ui": "http://127.0.0.1:5000/health",
    r"make ui": "http://127.0.0.1:5000/health",
    r"electra play.*": "printed",
}
STAY = {"make server", "make worker"}  # until the last page is read
ASK = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=10)"

# Commands that cannot be run in a small clone without a network, and why.
NOT_RUN = {
    r"OWNER=.*|git clone .*": "needs a network; the test's project is a clone",
    r"make (demo|test|test-all|lint|mutants)|\.ci/run|python -m pytest .*": "takes minutes",
    r"make (lock|release .*)|pip install .*": "needs a package index",
    r"make setup TORCH.*": "needs a package index; tests/test_setup.py",
    r"make gpu": "needs a GPU",
    r".*(--nproc-per-node|--nnodes|nproc_per_node|NPROC_PER_NODE).*": "needs several GPUs or machines",
    r"dask .*|sbatch .*|kubectl .*|ELECTRA_DASK=\S+ dvc repro .*": "needs a cluster",
    r".*(docker|TEAM_|make team).*|make lead": "needs Docker; tests/test_team.py",
    r"ssh .*|export .*|.*http://server:.*|dvc remote add .* s3://.*": "needs a team's server",
    r"prefect .*(team/electra|--tag user:).*": "needs a team's server; tests/test_team.py",
    r"python deploy/notify\.py .*": "needs a team's server; tests/test_deploy.py",
    r"python -c .*google/.*|dvc repro .*@electra-small|hf .*": "needs a model hub",
    r"dvc exp run .*\.steps=\d{5,} .*": "takes hours",
    r"python -m (benchmarks\.reliability|tests\.golden).*|python benchmarks/.*": "takes minutes, or writes records",
    r"dvc repro pipelines/dvc\.yaml:ablation@.*|electra flow ablations .*": "takes minutes",
    r"dvc repro .*:(glue|squad)@(base|large)": "as those of small, which are run",
    r"dvc repro .*@mine|electra predict build/glue/mine/.*": "tests/test_recipes.py",
    r"electra report (mine|mini|domain)\b.*": "tests/pipelines/report/test_findings.py",
    r"electra card .*": "tests/pipelines/stages/test_cards.py",
    r"electra (new|check|estimate) domain.*|dvc repro .*@domain(-before)?": "tests/test_recipes.py",
    r"(electra check|dvc repro .*tokens@)\s*german": "names settings that the page asks for",
    r"dvc pull pipelines/.*": "needs a store; tests/pipelines/test_dvc.py",
    r".*1f0c52d3.*": "names a run of somebody's",
    r"electra --install-completion": "writes into the settings of the reader's shell",
    r"dvc gc .*": "deletes; needs a store",
    r"dvc (import-url|update) .*": "needs a network",
    r"dvc exp (list|pull) .*origin.*|dvc exp (apply|remove|branch) .*": "needs an experiment's name",
    r"electra <stage> <name>|.*<model>.*|prefect flow-run cancel .*": "a pattern, not a command",
    r"git (show|pull|switch) .*|git pull|pre-commit .*": "git's own",
}

# Commands that are refused where there is no hub, no GPU, no cluster: the exit code and a part of
# the sentence.
REFUSED = {
    r"electra runs remove --archived": (65, "add --yes"),
    r"electra check electra-small": (69, "cannot reach the hub"),
    r"electra score hub .*": (65, "tasks hub"),
    r"dvc repro pipelines/dvc\.yaml:tokens@crawl": (255, "crawl"),
    r"ELECTRA_DASK=\S+ electra corpus .*": (69, "cannot reach"),
}

# The rest is run as it stands and has to end with code 0.
RUN = [
    r"source .*",
    r"cp .*",
    r"make (setup|deploy)",
    r"electra (--help|check|estimate|flow|new|params|predict|pretrain|report|runs|sync)\b.*",
    r"python -m pipelines (report|tasks|corpus)\b.*",
    r"dvc (commit|dag|exp run|exp show|metrics|plots|pull|push|remote|repro|stage|status)\b.*",
    r"prefect (deployment run|work-pool inspect|flow-run ls)\b.*",
]


def first_match(command, patterns):
    """Return the first pattern that describes a whole command."""
    return next((pattern for pattern in patterns if re.fullmatch(pattern, command)), None)


def treatment(command):
    """Return what the test does with a command: `server`, `not run`, `refused`, `run`; None if it
    does not know it.
    """
    tables = {"refused": REFUSED, "not run": NOT_RUN, "server": SERVERS, "run": RUN}
    return next((name for name, patterns in tables.items() if first_match(command, patterns)), None)


def typed(page):
    """Return the lines that a reader of a page types: the lines of its sh blocks, and the commands
    in its tables.
    """
    text = page.read_text()
    lines = []
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S):
        lines += block.replace("\\\n", " ").splitlines()
    commands = [re.split(r" +#", line)[0].strip() for line in lines]
    for row in re.findall(r"^\|.*\|$", text, re.M):
        commands += re.findall(r"`((?:dvc|electra|prefect) [^`]+)`", row)
    return [command for command in commands if command and not command.startswith("#")]


def blocks(page):
    """Return the YAML blocks of a page, each some sections of params.yaml."""
    texts = re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.M | re.S)
    return [YAML(typ="safe").load(block) for block in texts]


def small_settings():
    """Return params.yaml with every model so small that it trains in a second, on the made-up text."""
    yaml = YAML(typ="safe")
    shipped = yaml.load((ROOT / "params.yaml").read_text())
    smoke = yaml.load(SMOKE)
    values = dict(shipped)
    for section in ("corpora", "tokenizers", "tokens", "tasks", "encoders"):
        values[section] = {**shipped[section], **smoke[section]}
    for corpus in values["corpora"].values():
        corpus.pop("expected", None)  # a corpus is refused where the disk cannot hold it
    once = {"run": ["cola", "rte"], "defaults": {"epochs": 1, "seeds": [1]}}
    values["recipes"] = {**shipped["recipes"], "smoke": once}
    values["models"] = dict.fromkeys(shipped["models"], smoke["models"]["smoke"])
    own = {"tasks": "smoke", "recipe": "smoke", "arms": ["pretrained", "scratch"]}
    values["finetunings"] = {name: {"model": name, **own} for name in shipped["models"]}
    for name in shipped["published"]:
        if name in shipped["finetunings"]:
            values["finetunings"][name] = shipped["finetunings"][name]
    base = {"model": "tiny", "tokens": "smoke", "data": "smoke", "recipe": "smoke"}
    values["ablations"] = {
        name: {**shipped["ablations"][name], "base": base} for name in ("table5", "generator_size")
    }
    values["protocols"] = {**shipped["protocols"], "tiny": {"tasks": ["cola"], "seeds": 1}}
    values["run"] = {"models": ["tiny"], "ablations": []}
    return values


def write_settings(folder):
    """Write the small params.yaml of a project, as DVC would write it."""
    (folder / "params.yaml").write_text(dumps_yaml(small_settings()))


def write_data(folder):
    """Write the files of a reader's own that the pages name."""
    text = (folder / "text/a.txt").read_text()
    documents = [{"text": document.replace("\n", " ")} for document in text.split("\n\n")]
    write_jsonl(folder / "data/text/a.jsonl", documents)
    (folder / "data/a.txt").write_text(text)
    moods = [{"text": "a fine day", "label": "good"}, {"text": "a cold day", "label": "bad"}]
    for name in ("train", "dev", "new"):
        write_jsonl(folder / f"data/{name}.jsonl", moods * 20)
    (folder / "rows.tsv").write_text(
        "sentence1\tsentence2\nthe old miller keeps a cat\tthe miller keeps bread\n"
    )
    (folder / "sentences.txt").write_text("the old miller keeps a cat\n")
    question = {
        "id": "1",
        "context": "the old miller keeps a grey cat",
        "question": "who keeps a cat",
    }
    write_jsonl(folder / "questions.jsonl", [question])


def here(folder, command):
    """Return a command with the test's places instead of a reader's."""
    return command.replace("/mnt/team/electra", str(folder.parent / "store"))


def prepare(folder, command):
    """Do before a command what its page asks for in words."""
    if command.startswith("dvc exp run"):  # a clean tree
        commit(folder, "What runs have changed")
    if command.startswith("electra play some/folder"):
        shutil.copytree(folder / "build" / "models" / "tiny", folder / "some" / "folder")
