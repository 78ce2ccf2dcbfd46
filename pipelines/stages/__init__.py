"""One file a stage: `run(name, params, tracker)` reads params.yaml and earlier outputs and writes its own."""


def again(stage: str, name: str) -> str:
    """What to do about damage in a stage's folder."""
    return f"run `python -m pipelines {stage} {name}` to make it again"
