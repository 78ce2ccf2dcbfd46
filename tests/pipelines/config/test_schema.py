"""params.schema.json, by which editors check params.yaml."""

import json
import runpy

import pytest
from jsonschema import Draft202012Validator

from electra.files import read_json
from pipelines.config.settings_file import read
from tests.support.project import ROOT

SCHEMA = read_json(ROOT / "params.schema.json")


@pytest.mark.lock
def test_the_schema_is_what_the_settings_give(capsys):
    """Run `python -m pipelines.config.schema > params.schema.json` where this fails."""
    runpy.run_module("pipelines.config.schema", run_name="__main__")
    assert json.loads(capsys.readouterr().out) == SCHEMA


def test_the_shipped_settings_are_valid_and_a_misspelt_key_is_not():
    values = read(ROOT / "params.yaml")
    schema = Draft202012Validator(SCHEMA)
    assert schema.is_valid(values)
    values["models"]["tiny"]["pretrain"]["step"] = 3
    assert not schema.is_valid(values)
