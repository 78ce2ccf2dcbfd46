"""Results that git tracks: DVC deletes those of a stage before it starts it, and the stage may be interrupted.

So a stage first restores its own results from git, and replaces them at its end.
"""

import subprocess


def put_back(stage: str, name: str) -> None:
    """Restore the deleted results of a stage from git's index; nothing without git, or without deletions."""
    places = [f"results/{stage}/{name}.json", f"results/{stage}s/{name}.json", f"results/{name}/{stage}.*"]
    git = ["git", "ls-files", "-z", "--deleted", "--", *(places if name else [f"results/{stage}"])]
    try:
        deleted = subprocess.run(git, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout
        if deleted:
            subprocess.run(["git", "checkout-index", "-z", "--stdin"], input=deleted, check=False)
    except OSError:
        return
