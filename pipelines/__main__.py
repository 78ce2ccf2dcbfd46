"""`python -m pipelines`: the command line (cli.py) where nothing is installed, and in the processes of torchrun."""

from electra import stopping

if __name__ == "__main__":
    stopping.leave_at_once()  # before the imports below

    import os
    import sys

    from pipelines.cli import main
    from pipelines.runtime import processes

    code = main()
    if processes.is_process():  # gloo's threads can deadlock with the interpreter's shutdown, or abort it
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
