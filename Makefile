# One virtual environment, made and brought up to date as needed: it is installed anew when pyproject.toml
# is newer than its stamp. pip's own settings (PIP_INDEX_URL, PIP_EXTRA_INDEX_URL, ...) and PIP_ARGS pass through.
# TORCH is the build of torch: cpu, cuda, or auto, which is cuda on a machine with an NVIDIA GPU.

PYTHON ?= python3
VENV ?= .venv
PIP_ARGS ?=
TORCH ?= auto
CONFIG ?= configs/pocket.yaml
CHECKPOINT ?= models/pocket
ARGS ?=

BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
INSTALLED_TEST := $(VENV)/.installed-test
JUDGE_VENV := .venv-judge
INSTALLED_JUDGE := $(JUDGE_VENV)/.installed
VLLM_VENV ?= .venv-vllm
INSTALLED_VLLM := $(VLLM_VENV)/.installed
VLLM_REQUIREMENTS := tests/vllm/requirements.txt
RAY_VENV ?= .venv-ray
INSTALLED_RAY := $(RAY_VENV)/.installed
JUDGE_REQUIREMENTS := scripts/judge/requirements.txt scripts/judge/requirements-bare.txt
SHELL_SCRIPTS := scripts/tts-stream scripts/image_check.sh scripts/install_check.sh scripts/test_arm64.sh scripts/train_pocket/run.sh .ci/run

.DEFAULT_GOAL := help
.PHONY: help serve test hello lint format pytest test-vllm test-ray test-arm64 install-check image-check test-clients judge docs install clean

help:
	@echo "make serve    start the server (CONFIG=$(CONFIG), ARGS='--port 8001')"
	@echo "make test     lint, types, import contracts, then every test"
	@echo "make lint     ruff, mypy, import contracts, shellcheck"
	@echo "make pytest   the tests alone (ARGS='tests/unit -x')"
	@echo "make test-vllm  the talker on vLLM against the native one, on a CPU (its own $(VLLM_VENV), 4 GB)"
	@echo "make test-ray  the server on real Ray nodes on this machine (its own $(RAY_VENV), 3 GB)"
	@echo "make test-arm64  transfer, sampler, products and parity on linux/arm64, emulated by qemu (as root; needs debootstrap; 6 GB)"
	@echo "make install-check  build the wheel, install it in an empty environment, and speak"
	@echo "make image-check  build the CPU image, run it, and stop it while it speaks (needs buildah and podman)"
	@echo "make test-clients  real client packages against a server (their environments: .clients/, 2 GB; needs npm)"
	@echo "make judge    how well CHECKPOINT=$(CHECKPOINT) speaks, and how fast (ARGS=--quick; weights: .judge/)"
	@echo "make docs     the site of docs/, into build/docs"
	@echo "make format   let ruff mend and format the code"
	@echo "make install  only make $(VENV)"
	@echo "make clean    remove $(VENV) and every cache"
	@echo "PYTHON=python3.12 picks the Python (3.11 or newer), PIP_ARGS=... goes to pip install."
	@echo "TORCH=cpu or TORCH=cuda picks the build of torch, which is otherwise chosen by the machine."

# Python compiles each module when it is first imported, and caches the bytecode, even if the environment says otherwise.
# pip compiles nothing (--no-compile), because most modules are never imported.
serve: export PYTHONDONTWRITEBYTECODE =
serve: $(INSTALLED)
	$(BIN)/sonant serve --config $(CONFIG) $(ARGS)

# Files are divided among processes: most tests wait for a server that starts or stops. On a new machine, the processes
# would all compile the kernels of their servers at once, so one utterance is spoken before, while the types are checked.
# Files run in the order of their paths: those of a folder share fixtures, such as a browser, and short unit tests are
# last.
test: export PYTHONDONTWRITEBYTECODE =
# Idle torch threads sleep: if they spin, they slow the other test processes down. This saves about 10 % of the time.
test: export OMP_WAIT_POLICY = PASSIVE
test: $(INSTALLED_TEST)
	$(MAKE) --jobs=2 lint hello
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder $(ARGS)

hello: $(INSTALLED)
	$(BIN)/sonant say Hello. -o $(VENV)/hello.wav

lint: $(INSTALLED_TEST)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/shellcheck $(SHELL_SCRIPTS)

pytest: $(INSTALLED_TEST)
	$(BIN)/python -m pytest $(ARGS)

test-vllm: $(INSTALLED_VLLM)
	$(VLLM_VENV)/bin/python -m pytest tests/vllm $(ARGS)

test-ray: $(INSTALLED_RAY)
	$(RAY_VENV)/bin/python -m pytest tests/ray $(ARGS)

test-arm64:
	scripts/test_arm64.sh

install-check:
	PYTHON=$(PYTHON) scripts/install_check.sh

image-check:
	scripts/image_check.sh

test-clients: $(INSTALLED_TEST)
	$(BIN)/python -m scripts.clients $(ARGS)

judge: $(INSTALLED) $(INSTALLED_JUDGE)
	$(BIN)/python -m scripts.judge --checkpoint $(CHECKPOINT) $(ARGS)

# The variable silences an advertisement, which would look like a warning.
docs: $(INSTALLED_TEST)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

format: $(INSTALLED_TEST)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

install: $(INSTALLED)

clean:
	rm -rf $(VENV) $(JUDGE_VENV) $(VLLM_VENV) $(RAY_VENV) .judge .clients .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .browser build dist
	find engine server tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +

# pip is the last thing that venv puts in place, so a half-made environment is made again.
$(BIN)/pip:
	@command -v $(PYTHON) >/dev/null || { echo "Sonant needs Python 3.11 or newer, and there is no '$(PYTHON)'."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Sonant needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)."; \
	  echo "Name a newer one: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(INSTALLED): pyproject.toml | $(BIN)/pip
	$(BIN)/python scripts/install_torch.py --build $(TORCH) $(PIP_ARGS)
	$(BIN)/python -m pip install --no-compile $(PIP_ARGS) -e .
	@touch $@

# In an environment of its own: what listens is no dependency of what speaks.
$(INSTALLED_JUDGE): $(JUDGE_REQUIREMENTS) | $(BIN)/pip
	$(PYTHON) -m venv $(JUDGE_VENV)
	$(JUDGE_VENV)/bin/python -m pip install $(PIP_ARGS) -r scripts/judge/requirements.txt
	$(JUDGE_VENV)/bin/python -m pip install $(PIP_ARGS) --no-deps -r scripts/judge/requirements-bare.txt
	@touch $@

$(INSTALLED_TEST): $(INSTALLED)
	$(BIN)/python -m pip install --no-compile $(PIP_ARGS) -e '.[test]'
	@touch $@

# vLLM brings torchvision and its kin for CUDA, which do not load beside torch for CPUs, and which it can do without.
$(INSTALLED_VLLM): pyproject.toml $(VLLM_REQUIREMENTS) | $(BIN)/pip
	$(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_VENV)/bin/python -m pip install $(PIP_ARGS) -r $(VLLM_REQUIREMENTS) -e .
	$(VLLM_VENV)/bin/python -m pip uninstall --yes torchvision torchaudio torchcodec
	@touch $@

$(INSTALLED_RAY): pyproject.toml | $(BIN)/pip
	$(PYTHON) -m venv $(RAY_VENV)
	$(RAY_VENV)/bin/python scripts/install_torch.py --build $(TORCH) $(PIP_ARGS)
	$(RAY_VENV)/bin/python -m pip install $(PIP_ARGS) -e '.[ray,test]'
	@touch $@
