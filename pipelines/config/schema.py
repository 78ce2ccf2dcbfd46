"""The JSON schema of params.yaml, by which editors complete and check it.

`python -m pipelines.config.schema > params.schema.json` writes it from the classes of settings.
"""

import json
from typing import Any

from pydantic import TypeAdapter

from pipelines.config.groups import NAMED
from pipelines.config.params import Params

LISTED = (("CorpusConfig", "sources"), ("PretrainConfig", "phases"))


def params_schema() -> dict[str, Any]:
    """Return the schema of params.yaml as people write it, before pipelines/config/groups.py
    inserts named groups.
    """
    schema = TypeAdapter(Params).json_schema()
    for section, (key, group) in NAMED.items():
        reference = schema["properties"][section]["additionalProperties"]["$ref"]
        entry = schema["$defs"][reference.rpartition("/")[2]]["properties"]
        entry[key] = {"type": "string", "description": f"The name of an entry of `{group}`."}
    for kind, key in LISTED:
        entry = schema["$defs"][kind]["properties"]
        sections = {"type": "object", "additionalProperties": entry[key]["items"]}
        entry[key] = {"anyOf": [entry[key], sections]}
    return schema


if __name__ == "__main__":
    print(json.dumps(params_schema(), indent=1))
