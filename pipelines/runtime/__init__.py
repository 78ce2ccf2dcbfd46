"""What stages and flows run on: processes, DVC, workspaces, remote files, a Dask cluster, the progress bar."""
