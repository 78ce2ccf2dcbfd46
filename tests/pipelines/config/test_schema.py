"""params.schema.json, by which editors check params.yaml."""

import copy
import json
import runpy

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from electra.files import read_json
from tests.conftest import ROOT

SHIPPED = YAML(typ="safe").load((ROOT / "params.yaml").read_text())
SCHEMA = read_json(ROOT / "params.schema.json")


@pytest.mark.lock
def test_the_schema_is_what_the_settings_give(capsys):
    """Run `python -m pipelines.config.schema > params.schema.json` where this fails."""
    runpy.run_module("pipelines.config.schema", run_name="__main__")
    assert json.loads(capsys.readouterr().out) == SCHEMA


def test_the_shipped_settings_are_valid():
    Draft202012Validator.check_schema(SCHEMA)
    assert not [error.message for error in Draft202012Validator(SCHEMA).iter_errors(SHIPPED)]


def test_a_misspelt_key_is_not_valid():
    values = copy.deepcopy(SHIPPED)
    values["models"]["tiny"]["pretrain"]["step"] = 3
    (error,) = Draft202012Validator(SCHEMA).iter_errors(values)
    assert "'step' was unexpected" in error.message
