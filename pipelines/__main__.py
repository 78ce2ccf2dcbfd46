"""`python -m pipelines`: the command line where nothing is installed, and in the processes of
torchrun.
"""

from electra import stopping

if __name__ == "__main__":
    stopping.exit_on_signals()  # before the imports below

    import os
    import sys

    from electra.errors import SourceUnreachable

    try:
        from pipelines.cli import main
    # in a Python that is not ours: `.venv/bin/dvc repro` takes any on the path
    except ModuleNotFoundError as error:
        do = "`source .venv/bin/activate`, which `make setup` makes, and run the same command again"
        print(f"error: {sys.executable} has no package {error.name}; {do}", file=sys.stderr)
        sys.exit(SourceUnreachable.exit_code)
    from pipelines.cli import processes

    code = main()
    # gloo's threads can deadlock with the interpreter's shutdown, or abort it
    if processes.is_process():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
