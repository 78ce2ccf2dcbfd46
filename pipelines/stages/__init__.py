"""One file a stage: `run(name, params, tracker)` reads params.yaml and earlier outputs and writes its own."""
