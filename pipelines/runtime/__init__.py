"""What stages and flows run on: processes, remote files, a Dask cluster, the progress bar."""
