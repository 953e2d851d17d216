"""Every response conforms to the API's OpenAPI description.

More examples: make pytest ARGS='tests/server/test_description.py --hypothesis-profile=thorough --timeout=0'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import allow_header_conformance, negative_data_rejection, positive_data_acceptance
from schemathesis.pytest.lazy import get_all_tests

from server.app import create_app
from server.package_data import DEFAULT_CONFIG
from server.settings import load_settings
from tests.server.serving import TIMEOUT, Serving, write_config

THOROUGH = settings.get_current_profile_name() == "thorough"
EXAMPLES = settings().max_examples if THOROUGH else 10

DESCRIPTION = create_app(load_settings(DEFAULT_CONFIG)).openapi()
OPERATIONS = [f"{method.upper()} {path}" for path, methods in DESCRIPTION["paths"].items() for method in methods]


@pytest.fixture(scope="module")
def short_context(pocket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server with a short context, which keeps utterances short."""
    config = write_config(tmp_path_factory.mktemp("short-context"), pocket, engine={"talker": {"context": 64}})
    with Serving(config) as server:
        yield server.ready()


def excluded_checks(case: schemathesis.Case) -> list[schemathesis.CheckFunction]:
    """Checks that a schema cannot express.

    Rules between fields are beyond a schema, a batch answers 200 even if items are invalid, and a voice or a request
    may be named "blend".
    """
    last = case.path.rpartition("/")[2]
    batch = [negative_data_rejection] if last == "batch" else []
    names = [allow_header_conformance] if last in ("batch", "blend", "embedding") else []
    return [positive_data_acceptance, *batch, *names]


@settings(derandomize=not THOROUGH, max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
def call_and_validate(case: schemathesis.Case, url: str) -> None:
    case.call_and_validate(base_url=url, timeout=TIMEOUT, excluded_checks=excluded_checks(case))


@pytest.fixture(scope="module")
def operation_tests() -> dict[str, Callable[..., None]]:
    """``call_and_validate`` with the examples of each operation.

    ``parametrize`` of Schemathesis would generate them while the tests are collected, in every process of a run.
    """
    api = schemathesis.openapi.from_dict(DESCRIPTION)
    tests = get_all_tests(schema=api, test_func=call_and_validate, settings=None, given_kwargs=None)
    return {operation.label: test for operation, test in (each.ok() for each in tests)}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_response_conforms_to_the_description(
    operation: str, operation_tests: dict[str, Callable[..., None]], short_context: Serving
) -> None:
    assert sorted(operation_tests) == sorted(OPERATIONS)
    operation_tests[operation](url=short_context.url)


def test_the_server_publishes_the_description(short_context: Serving) -> None:
    with short_context.client() as client:
        assert client.get("/openapi.json").json() == DESCRIPTION


@pytest.mark.parametrize("path", DESCRIPTION["paths"])
def test_every_route_documents_its_errors(path: str) -> None:
    for operation in DESCRIPTION["paths"][path].values():
        failures = {status: response for status, response in operation["responses"].items() if status != "200"}
        assert "500" in failures
        for response in failures.values():
            assert response["content"] == {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorBody"}}}


def test_with_keys_configured_the_description_marks_protected_routes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SONANT_API_KEY", "some-secret")
    description = create_app(load_settings(DEFAULT_CONFIG)).openapi()
    assert description["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    speech, health = description["paths"]["/v1/audio/speech"]["post"], description["paths"]["/health"]["get"]
    assert (speech["security"], "401" in speech["responses"]) == ([{"key": []}], True)
    assert ("security" in health, "401" in health["responses"]) == (False, False)
