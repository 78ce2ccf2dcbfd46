"""params.yaml as dataclasses."""
