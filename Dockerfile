# Two targets that differ in the torch they carry; the one for GPUs has vLLM, too:
#   docker build --target cpu  -t sonant:cpu  .
#   docker build --target cuda -t sonant:cuda .   then: docker run --gpus all ...
# The final layers are dependencies, checkpoint and code, in this order. A release without new dependencies changes the
# last one only: a few MB to pull, if it is built with the cache of the release before (docker build --cache-from).

ARG PYTHON_IMAGE=python:3.12-slim

FROM ${PYTHON_IMAGE} AS base
ENV PATH=/opt/sonant/bin:$PATH PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /app

# Only the requirements, so that the layers of the dependencies do not depend on the rest of pyproject.toml.
FROM base AS requirements
COPY pyproject.toml ./
RUN python3 -c "import pathlib, tomllib; \
project = tomllib.loads(pathlib.Path('pyproject.toml').read_text())['project']; \
needed = project['dependencies']; \
write = lambda name, lines: pathlib.Path(name).write_text('\n'.join(lines) + '\n'); \
write('torch.txt', [each for each in needed if each.startswith('torch')]); \
write('requirements.txt', needed); \
write('requirements-vllm.txt', needed + project['optional-dependencies']['vllm'])"

# The script installs the CPU build of torch, from pip's index if that has it, else from PyTorch's. Its headers, tests
# and test programs are removed.
FROM base AS dependencies-cpu
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_FIND_LINKS
COPY --from=requirements /app/*.txt ./
COPY scripts/install_torch.py ./
RUN python3 -m venv /opt/sonant \
 && python install_torch.py --build cpu --requirement "$(cat torch.txt)" \
 && pip install -r requirements.txt \
 && (cd /opt/sonant/lib/python3*/site-packages/torch && rm -rf include test \
 && find bin -type f ! -name torch_shm_manager -delete) \
 && python -c "import torch; assert not torch.version.cuda, 'this is a CUDA build of torch: see the output above'"

# vLLM names the torch that it was built with, and may compile with torch's headers.
FROM base AS dependencies-cuda
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_FIND_LINKS
COPY --from=requirements /app/*.txt ./
RUN python3 -m venv /opt/sonant \
 && pip install -r requirements-vllm.txt \
 && rm -rf /opt/sonant/lib/python3*/site-packages/torch/test \
 && python -c "import torch; assert torch.version.cuda, 'this is a CPU build of torch'"

# The code, in a folder of its own. The environment here is empty: it is the one that runs the sonant command.
FROM base AS code
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_FIND_LINKS
RUN python3 -m venv /opt/sonant
COPY pyproject.toml README.md LICENSE ./
COPY engine engine
COPY server server
COPY configs configs
RUN pip install --no-deps --target /opt/code .

FROM base AS runtime
RUN useradd --create-home --uid 10001 sonant \
 && install -d -m 700 -o sonant /var/lib/sonant /var/lib/sonant/voices /var/cache/sonant
COPY deploy/image/defaults.yaml /etc/sonant-defaults.yaml
ENV PATH=/opt/code/bin:$PATH PYTHONPATH=/opt/code SONANT_HOST=0.0.0.0 SONANT_DEFAULTS=/etc/sonant-defaults.yaml \
    SONANT_ADDRESS_FILE=/dev/shm/sonant.address SONANT_VOICES__FOLDER=/var/lib/sonant/voices HF_HOME=/var/cache/sonant \
    XDG_CACHE_HOME=/var/cache/sonant
VOLUME /var/lib/sonant/voices /var/cache/sonant
WORKDIR /var/lib/sonant
USER 10001
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --start-period=120s --interval=15s --timeout=5s \
  CMD ["python", "-m", "server.cli.health_check"]
CMD ["sonant", "serve"]

# Triton builds the host's side of its kernels with a C compiler.
FROM runtime AS cuda
USER root
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
USER 10001
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
COPY --from=dependencies-cuda /opt/sonant /opt/sonant
COPY models/pocket /opt/code/server/data/models/pocket
COPY --from=code /opt/code /opt/code

FROM runtime AS cpu
COPY --from=dependencies-cpu /opt/sonant /opt/sonant
COPY models/pocket /opt/code/server/data/models/pocket
COPY --from=code /opt/code /opt/code
