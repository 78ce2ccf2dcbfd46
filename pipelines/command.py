"""`electra` on the path: `python -m pipelines` under a name of its own."""

from electra import stopping


def main() -> int:
    """Run the command line; until it is imported, a signal ends the process where it stands."""
    stopping.leave_at_once()
    from pipelines.__main__ import main as run

    return run()
