# Two targets that differ in the torch they carry; the one for GPUs has vLLM, too:
#   docker build --target cpu  -t sonant:cpu  .
#   docker build --target cuda -t sonant:cuda .   then: docker run --gpus all ...
# torch comes from the index that pip is told of. The default index gives CUDA builds on x86-64 Linux, so the cpu
# target needs --build-arg PIP_EXTRA_INDEX_URL=..., the CPU index that PyTorch's installation page names.

ARG PYTHON_IMAGE=python:3.12-slim

FROM ${PYTHON_IMAGE} AS base
ENV PATH=/opt/sonant/bin:$PATH PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /app

# The dependencies alone, against empty packages: this layer is built anew only when pyproject.toml changes.
FROM base AS dependencies
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
RUN python -m venv /opt/sonant
COPY pyproject.toml ./
RUN mkdir engine server && touch README.md LICENSE engine/__init__.py server/__init__.py && pip install .

# vLLM names the torch that it was built with.
FROM dependencies AS dependencies-cuda
RUN pip install '.[vllm]'

FROM dependencies AS installed-cpu
COPY README.md LICENSE ./
COPY engine engine
COPY server server
RUN pip install --no-deps --force-reinstall .
RUN python -c "import torch; assert not torch.version.cuda, \
'this is a CUDA build of torch; give --build-arg PIP_EXTRA_INDEX_URL= the CPU index'"

FROM dependencies-cuda AS installed-cuda
COPY README.md LICENSE ./
COPY engine engine
COPY server server
RUN pip install --no-deps --force-reinstall .
RUN python -c "import torch; assert torch.version.cuda, 'this is a CPU build of torch'"

FROM base AS runtime
RUN useradd --create-home --uid 10001 sonant && install -d -m 700 -o sonant /var/lib/sonant/voices
ENV SONANT_VOICES__FOLDER=/var/lib/sonant/voices
VOLUME /var/lib/sonant/voices
COPY models models
COPY configs configs
USER 10001
EXPOSE 8000
HEALTHCHECK --start-period=120s --interval=15s --timeout=5s \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
CMD ["sonant", "serve", "--config", "configs/pocket.yaml", "--host", "0.0.0.0"]

# Triton builds the host's side of its kernels with a C compiler.
FROM runtime AS cuda
USER root
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
USER 10001
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
COPY --from=installed-cuda /opt/sonant /opt/sonant

FROM runtime AS cpu
COPY --from=installed-cpu /opt/sonant /opt/sonant
