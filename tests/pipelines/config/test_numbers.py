"""No setting takes a number that can only be a slip."""

from pydantic import TypeAdapter

from electra.finetuning.tasks import FinetuneConfig, SquadConfig
from pipelines.config.params import Params

# settings for which 0 makes sense
NOTHING = """
    dropout attention_dropout head_dropout weight_decay warmup beta1 beta2 seed seeds workers
    min_save_interval_minutes min_eval_interval_minutes mask_token_rate random_token_rate
    single_segment_rate short_rate fraction min_tolerated generator_weight answerability_weight
    null_threshold
""".split()
# keys of a schema that stand for the setting above them
WITHIN = {"anyOf", "oneOf", "items", "prefixItems", "additionalProperties"}
# of official tasks, which no file sets; one of three numbers
FACTS = {"train_rows", "scale", "new_layers"}


def numbers(schema, key=""):
    """Yield the key and the schema of every number within a schema."""
    if isinstance(schema, list):
        for inner in schema:
            yield from numbers(inner, key)
    elif isinstance(schema, dict):
        if schema.get("type") in {"integer", "number"}:
            yield key, schema
        for name, inner in schema.items():
            yield from numbers(inner, key if name in WITHIN else name)


def test_every_number_has_an_interval():
    tried = 0
    for kind in (Params, FinetuneConfig, SquadConfig):
        for key, schema in numbers(TypeAdapter(kind).json_schema()):
            if key not in FACTS and "labels" not in key:
                low = schema.get("minimum", schema.get("exclusiveMinimum"))
                assert low is not None, f"{key} has no least value"
                assert {"maximum", "exclusiveMaximum"} & schema.keys(), f"{key} has no interval"
                assert key in NOTHING or low > 0 or "exclusiveMinimum" in schema, f"{key} takes 0"
                tried += 1
    assert tried > 60
