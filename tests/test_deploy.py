"""The examples for Slurm, Kubernetes and systemd: read by their tools, with commands of ours and
agreeing numbers.
"""

import configparser
import re
import shlex
import string
import subprocess

import pytest
from ruamel.yaml import YAML

from electra import errors
from tests.support.command_lines import parse
from tests.support.project import ROOT, read_text

SLURM = ROOT / "deploy" / "slurm.sbatch"


def options_of(words):
    """Return the options of a command, `python -m pipelines pretrain ...`."""
    assert words[:4] == ["python", "-m", "pipelines", "pretrain"]
    return parse(words[3:])


def test_slurm_starts_one_agent_a_machine_and_requeues_what_was_stopped():
    text = SLURM.read_text()
    assert subprocess.run(["bash", "-n", SLURM]).returncode == 0
    options = dict(re.findall(r"^#SBATCH --([\w-]+)(?:=(\S+))?$", text, re.M))
    assert options["ntasks-per-node"] == "1" and options["signal"].startswith("TERM@")
    assert "requeue" in options
    processors = "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK" in text
    assert processors, "or each task gets one processor"
    values = {"model": "base", "first": "node1", "port": "29442"}
    values["SLURM_JOB_NUM_NODES"] = options["nodes"]
    values["SLURM_GPUS_ON_NODE"] = options["gpus-per-node"]
    command = text[text.index("srun ") : text.index("code=$?")].replace("\\\n", " ")
    command = string.Template(command).safe_substitute(values)
    words = shlex.split(command)
    options = options_of(words[words.index("python") :])
    expected = {"nproc_per_node": 8, "nnodes": 4, "rdzv_endpoint": "node1:29442", "max_restarts": 3}
    assert {key: options[key] for key in expected} == expected
    assert f'"$code" -eq {errors.Stopped.exit_code}' in text and "scontrol requeue" in text


def test_systemd_starts_a_worker_a_gpu_which_takes_one_run_at_a_time():
    text = read_text("deploy/electra-worker@.service")
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str
    unit.read_string(text)
    service = unit["Service"]
    words = shlex.split(service["ExecStart"])
    folder = service["WorkingDirectory"]
    assert words[:7] == f"{folder}/.venv/bin/prefect worker start --pool electra --limit 1".split()
    makefile = read_text("Makefile")
    assert f"\t{' '.join(['prefect', *words[1:7]])} " in makefile, "as `make worker` does"
    assert "Environment=CUDA_VISIBLE_DEVICES=%i" in text and "%i" in words[-1]
    assert service["Restart"] == "always" and service["KillMode"] == "control-group"


@pytest.fixture
def kubernetes():
    """The documents of deploy/kubernetes.yaml by kind."""
    text = read_text("deploy/kubernetes.yaml")
    return {document["kind"]: document for document in YAML(typ="safe").load_all(text)}


def test_kubernetes_pods_meet_at_the_first_through_the_service(kubernetes):
    service = kubernetes["Service"]
    job = kubernetes["Job"]["spec"]
    pod = job["template"]["spec"]
    (container,) = pod["containers"]
    options = options_of([*container["command"], *container["args"]])
    assert job["completionMode"] == "Indexed"
    assert job["completions"] == job["parallelism"] == options["nnodes"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == options["nproc_per_node"]
    host, port = options["rdzv_endpoint"].split(":")
    name = kubernetes["Job"]["metadata"]["name"]
    assert host == f"{name}-0.{pod['subdomain']}"
    assert pod["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"job-name": name}
    assert int(port) == service["spec"]["ports"][0]["port"]
    claimed = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == claimed


def test_a_mistake_ends_the_job_and_a_stop_does_not(kubernetes):
    job = kubernetes["Job"]["spec"]
    rules = job["podFailurePolicy"]["rules"]
    (codes,) = (rule["onExitCodes"] for rule in rules if "onExitCodes" in rule)
    mistakes = (errors.BadConfig, errors.BadInput, errors.NonFinite, errors.OutOfMemory)
    assert set(codes["values"]) == {mistake.exit_code for mistake in mistakes}
    assert job["template"]["spec"]["restartPolicy"] == "Never", "as a failure policy asks for"
