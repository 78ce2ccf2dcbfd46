# One image with torch, this project and git, for a single machine (docs/containers.md) and for a team's servers and
# workers (docs/team.md). It works on the clone that is mounted in /app, as any user. In the clone:
#
#   docker build --tag electra .
#   docker run --rm --gpus all --user "$(id -u):$(id -g)" --stop-timeout 300 --volume "$PWD:/app" electra
#
# torch contains CUDA's libraries, so the base image needs nothing from NVIDIA. The host needs NVIDIA's driver (580 or
# newer for CUDA 13) and container toolkit. An image without CUDA is a third of the size: omit --gpus and build with
#   --build-arg TORCH=https://.../torch-2.13.0+cpu-....whl --build-arg COMPILER=
ARG BASE=python:3.11.15-slim-bookworm@sha256:d29f48a31a8b408ed19272ca1e7b10ebae13b240a27e862d3d4217c528e2e0c3

# Versions come from requirements.lock. The packages' own tests, a tenth of all bytes, are removed.
# hadolint ignore=DL3006
FROM ${BASE} AS packages
ENV UV_CACHE_DIR=/var/cache/uv UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy UV_PYTHON_DOWNLOADS=never VIRTUAL_ENV=/opt/venv
RUN python -m pip install --no-cache-dir uv==0.13.9 && uv venv /opt/venv
COPY requirements.lock ./
ARG TORCH=torch==2.13.0
RUN --mount=type=cache,target=/var/cache/uv uv pip install --constraint requirements.lock "${TORCH}"
COPY pyproject.toml ./
RUN --mount=type=cache,target=/var/cache/uv \
    uv pip install --constraint requirements.lock --requirement pyproject.toml --extra s3 --extra dask --extra crawl --extra server --extra gpu setuptools \
    && find /opt/venv -type d \( -name tests -o -path '*/torch/test' \) -prune -exec rm -r {} +

# hadolint ignore=DL3006
FROM ${BASE}
LABEL org.opencontainers.image.title="electra" \
      org.opencontainers.image.description="ELECTRA as a reproducible workflow: DVC stages, Prefect flows, MLflow tracking" \
      org.opencontainers.image.licenses="Apache-2.0"
# Any user can run it, even one without an entry in passwd.
ENV HOME=/tmp LOGNAME=electra USER=electra PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1
# torch.compile needs the compiler, on GPUs only. tini passes signals to all processes.
ARG COMPILER="gcc libc6-dev"
# hadolint ignore=DL3008,SC2086
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git tini ${COMPILER} \
    && rm -rf /var/lib/apt/lists/* \
    && git config --system safe.directory /app \
    && git config --system user.name electra \
    && git config --system user.email electra@localhost
COPY --from=packages /opt/venv /opt/venv
WORKDIR /app
COPY . .
# Any user can write to the folders: without a mount, DVC writes its state here and a worker checks out its commit.
RUN --mount=from=packages,source=/usr/local/bin/uv,target=/usr/local/bin/uv \
    uv pip install --python /opt/venv --no-deps --no-build-isolation --no-cache --config-setting editable_mode=compat --editable . \
    && python pipelines/environment.py \
    && dvc config --local core.no_scm true \
    && mkdir -p build results runs \
    && find . -type d -exec chmod 777 {} +
USER 1000
# On SIGTERM, DVC ends at once, and so does the container. On SIGINT, it waits until the stage has saved.
STOPSIGNAL SIGINT
ENTRYPOINT ["tini", "-g", "--"]
CMD ["dvc", "repro"]
