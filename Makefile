# make demo      set up, then run everything that `run` in params.yaml names    make server   Prefect's server, 127.0.0.1:4200
# make test      set up, then run the quick tests                              make worker   a worker for it, one run at a time
# make test-all  the slow tests; make gpu: the tests of a CUDA device           make deploy   register the deployments
# make lint      format, style, types                                          make lead     deployments of `team`, and a worker for them
# make team      all servers and a worker in containers (docs/team.md)         make mutants  draw faults that the tests should detect
# make ui        MLflow, 127.0.0.1:5000

# The first Python that starts: a version manager may have a shim that refuses.
PYTHON ?= $(shell for each in python3.11 python3.12 python3.13 python3; do $$each -c '' 2>/dev/null && echo $$each && break; done)
TORCH ?= torch==2.13.0
TORCH_INDEX ?=

ifneq ($(words $(CURDIR)),1)
$(error $(CURDIR): has a space in it, which make cannot handle; move the project to a path without one)
endif

export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Otherwise many short processes would each compile the project again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all gpu lint mutants setup ui server worker lead deploy team team-down resolve lock release clean-state

demo: setup
	dvc repro
	@echo "The report is results/report/index.html. To try the model in the browser: .venv/bin/electra play tiny"

# Each process starts with its share of the files and takes work from others at the end, so few servers and models are
# created twice. Some tests only wait for servers, so three processes suit two cores.
TESTS = python -m pytest --numprocesses $(PROCESSES) --dist worksteal
PROCESSES ?= 3
# Continuous integration adds "and not lock" when it has resolved other versions.
MARKED ?= not slow

test: setup
	$(TESTS) -m "$(MARKED)"

test-all: setup
	$(TESTS) -m slow

gpu: setup
	python -m pytest -m gpu -rs tests/gpu

lint: setup
	ruff check .
	ruff format --check .
	lint-imports --no-cache
	mypy

# The quick tests run once under coverage, then some tests run for each of 200 faults drawn by SEED. This takes an hour
# or two on one core; `make mutants MUTANTS=20` tries fewer.
mutants: setup
	python -m tests.mutants --count $(or $(MUTANTS),200) --seed $(or $(SEED),1)

# Torch is installed first, because its build (CPU or CUDA) depends on the machine (docs/gpu.md). `make setup TORCH=torch`
# installs the newest.
setup:
	@.ci/set-up "$(PYTHON)" "$(TORCH)" "$(TORCH_INDEX)"

ui: setup
	@echo "The runs: http://127.0.0.1:5000/#/experiments/1/runs?workflowType=machine_learning"
	mlflow ui --host 127.0.0.1

server: setup
	prefect server start --host 127.0.0.1

worker: setup
	prefect worker start --pool electra --limit 1 --type process $(addprefix --work-queue ,$(QUEUE))

# Runs of `team` only wait for other runs, so this worker has no limit. This also registers their deployments.
lead: setup
	python -m pipelines.flows.deployments --team
	prefect worker start --pool electra-lead --type process

deploy: setup
	python -m pipelines.flows.deployments

# Write .env for docker compose: new logins, the user of the workers (the owner of this clone), and the team's origin (a
# bare repository next to this clone).
team:
	@umask 077; grep -qs ^TEAM_USER= .env || { \
		for name in POSTGRES_PASSWORD S3_PASSWORD PREFECT_PASSWORD MLFLOW_PASSWORD MLFLOW_SECRET; do \
			echo "$$name=$$(od -An -tx1 -N16 /dev/urandom | tr -d ' \n')"; \
		done; \
		stat --format "TEAM_USER=%u:%g" .; \
		echo "TEAM_ORIGIN=$(CURDIR).git"; \
	} >>.env
	@chmod 600 .env
	@origin=$$(sed -n s/^TEAM_ORIGIN=//p .env); test -d "$$origin" || git clone --quiet --bare . "$$origin"; \
		chown --recursive --reference=. .env "$$origin"
	docker compose up --detach --build --wait

team-down:
	docker compose down

# Needs uv. Writes one lock for Python 3.11 to 3.13, with a hash of every file that may be installed. Torch and its CUDA
# libraries are left out, since they differ by machine.
resolve:
	echo "$(TORCH)" | uv pip compile pyproject.toml --extra dev --extra s3 --extra dask --extra crawl --extra server --extra gpu \
		--universal --python-version 3.11 --no-emit-package torch --generate-hashes --no-header --no-annotate \
		--constraint - --output-file requirements.lock --quiet $(RESOLVE)
	awk '/^[^ ]/ {left_out = /^(cuda|nvidia-[^m]|triton)/} !left_out' requirements.lock >requirements.lock.new
	mv requirements.lock.new requirements.lock

lock: resolve
	.ci/wheels

# Write version and date, build wheel, image and bill of materials, commit and tag. Nothing is published.
release: setup
	.ci/release "$(VERSION)"

# Remove the state of servers and tools, but no data, models, checkpoints or results.
clean-state:
	rm -rf .prefect mlruns mlflow.db .mypy_cache .ruff_cache
