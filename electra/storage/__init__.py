"""What is kept on disk, how it is found again, and how it is known to be whole; no result depends on it."""
