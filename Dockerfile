# A GPU image: `docker build -t electra .`, then
#   docker run --rm --gpus all electra                                             dvc repro
#   docker run --rm --gpus all -e PREFECT_API_URL=... electra prefect worker start --pool electra
# The torch of the package index for Linux carries its own CUDA libraries, so the base needs Python and nothing of NVIDIA's;
# the host needs the NVIDIA driver (580 or newer: torch 2.13 is built for CUDA 13) and container toolkit. To fix the base to the byte, give it by digest:
#   --build-arg BASE=python:3.11.14-slim-bookworm@sha256:...
ARG BASE=python:3.11.14-slim-bookworm
FROM ${BASE}

ARG TORCH=torch==2.13.0
ENV DO_NOT_TRACK=true \
    DVC_NO_ANALYTICS=1 \
    MLFLOW_DISABLE_TELEMETRY=true \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PREFECT_SERVER_ANALYTICS_ENABLED=false \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

# git: DVC asks for it at import. gcc: torch.compile builds its launchers with it on GPUs. Debian's security updates count for more here than a fixed version of it.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc git libc6-dev \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 electra \
    && install --directory --owner=electra --group=electra /app /srv/electra /srv/electra/.dvc /srv/electra/.dvc/cache \
        /srv/electra/build /srv/electra/runs

WORKDIR /app

# Packages change less often than code, and torch less often than the rest: one layer each.
COPY requirements.lock ./
# hadolint ignore=DL3013
RUN python -m pip install "${TORCH}"
# hadolint ignore=DL3059
RUN python -m pip install --requirement requirements.lock

COPY --chown=electra:electra . .
RUN python -m pip install --no-deps --no-build-isolation --editable .

USER 1000
# The history stays outside of the image (.dockerignore), and DVC is told so.
RUN dvc config --local core.no_scm true

CMD ["dvc", "repro"]
