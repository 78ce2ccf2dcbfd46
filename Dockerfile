# Two images of one file:
#   docker build --tag electra .                          the trainer (the last target): torch, this project, what a worker needs
#   docker build --target server --tag electra:server .   Prefect's and MLflow's servers, with clients of Postgres and S3
#
# The trainer on a GPU, its models and runs in the folder that you are in:
#   mkdir -p build runs results
#   docker run --rm --gpus all --user "$(id -u):$(id -g)" -v "$PWD/build:/app/build" -v "$PWD/runs:/app/runs" -v "$PWD/results:/app/results" electra
#
# The default torch for Linux carries its own CUDA libraries, so the base needs Python and nothing of NVIDIA's; the host
# needs the NVIDIA driver (580 or newer: torch 2.13 is built for CUDA 13) and the container toolkit. For a smaller image without
# CUDA, name a CPU build of torch and leave the compiler out, which only GPUs use:
#   docker build --build-arg TORCH=https://…/torch-2.13.0+cpu-….whl --build-arg COMPILER= --tag electra:cpu .
# To fix the base to the byte, give it by digest: --build-arg BASE=python:3.11.15-slim-bookworm@sha256:...
ARG BASE=python:3.11.15-slim-bookworm

# hadolint ignore=DL3006
FROM ${BASE} AS base
ENV DO_NOT_TRACK=true \
    DVC_NO_ANALYTICS=1 \
    HOME=/home/electra \
    MLFLOW_DISABLE_TELEMETRY=true \
    PATH=/opt/venv/bin:$PATH \
    PREFECT_SERVER_ANALYTICS_ENABLED=false \
    PYTHONUNBUFFERED=1
# tini passes signals on to all that it has started. Folders are anybody's: a container may run as the owner of a clone.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends tini \
    && apt-get clean && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 electra \
    && chmod 777 /home/electra
ENTRYPOINT ["tini", "-g", "--"]

# The versions are those of requirements.lock for every package; packages' own tests, a tenth of all bytes, stay outside.
# hadolint ignore=DL3006
FROM ${BASE} AS packages
ENV PIP_CACHE_DIR=/var/cache/pip UV_CACHE_DIR=/var/cache/uv UV_LINK_MODE=copy UV_PYTHON_DOWNLOADS=never VIRTUAL_ENV=/opt/venv
RUN --mount=type=cache,target=/var/cache/pip python -m pip install uv==0.13.9 && uv venv /opt/venv
COPY requirements.lock pyproject.toml ./

FROM packages AS server-packages
RUN --mount=type=cache,target=/var/cache/uv \
    uv pip install --constraint requirements.lock asyncpg boto3 flask-wtf mlflow prefect psycopg2-binary \
    && find /opt/venv -type d -name tests -prune -exec rm -r {} +

FROM packages AS trainer-packages
ENV UV_COMPILE_BYTECODE=1
ARG TORCH=torch==2.13.0
RUN --mount=type=cache,target=/var/cache/uv uv pip install --constraint requirements.lock "${TORCH}"
RUN --mount=type=cache,target=/var/cache/uv \
    uv pip install --constraint requirements.lock --requirement pyproject.toml --extra s3 --extra dask --extra crawl --extra gpu setuptools \
    && find /opt/venv -type d \( -name tests -o -path '*/torch/test' \) -prune -exec rm -r {} +

FROM base AS server
LABEL org.opencontainers.image.title="electra-server" \
      org.opencontainers.image.description="Servers of a team: Prefect and MLflow" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=server-packages /opt/venv /opt/venv
WORKDIR /app
COPY deploy/buckets.py deploy/
# Prefect copies its pages before it shows them, by default into its own package, which is not this user's.
ENV PREFECT_SERVER_UI_STATIC_DIRECTORY=/home/electra/prefect
USER 1000
CMD ["prefect", "server", "start", "--host", "127.0.0.1"]

FROM base AS trainer
LABEL org.opencontainers.image.title="electra" \
      org.opencontainers.image.description="ELECTRA as a reproducible workflow: DVC stages, Prefect flows, MLflow tracking" \
      org.opencontainers.image.licenses="Apache-2.0"
# git: DVC asks for it at import, and any checkout that is mounted may be used. The compiler: torch.compile builds its launchers with it on GPUs.
ARG COMPILER="gcc libc6-dev"
# hadolint ignore=DL3008,SC2086
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git ${COMPILER} \
    && apt-get clean && rm -rf /var/lib/apt/lists/* \
    && git config --system safe.directory '*' \
    && install --directory --mode=777 /app /srv/electra /srv/electra/.dvc /srv/electra/.dvc/cache /srv/electra/build /srv/electra/runs
COPY --from=trainer-packages /opt/venv /opt/venv
WORKDIR /app
COPY --chown=electra:electra . .
RUN --mount=from=trainer-packages,source=/usr/local/bin/uv,target=/usr/local/bin/uv \
    VIRTUAL_ENV=/opt/venv uv pip install --no-deps --no-build-isolation --no-cache --editable . && chmod -R a+rwX /app
USER 1000
# The history stays outside of the image (.dockerignore), and DVC is told so.
RUN dvc config --local core.no_scm true && chmod -R a+rwX /app/.dvc
# DVC leaves its stage at once on SIGTERM, and the container ends with DVC; on SIGINT it waits while the stage saves.
STOPSIGNAL SIGINT
CMD ["dvc", "repro"]
