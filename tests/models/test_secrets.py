"""What is blanked out of texts, in whatever form a server repeats it."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from pydantic import SecretStr

from pb_graph.models.provider_errors import redact
from pb_graph.models.secrets import secrets_of

SECRETS = ["plain", "two words", "quo\"te's", "schlüßel", "a/b+c=d", "back\\slash", "<tag>&amp"]
WAYS: dict[str, Any] = {
    "as it is": str,
    "in JSON": lambda text: json.dumps(text)[1:-1],
    "in readable JSON": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "in a traceback": lambda text: repr(text)[1:-1],
    "JSON in a traceback": lambda text: repr(json.dumps(text))[2:-2],
    "in an address": lambda text: quote(text, safe=""),
    "in a form": quote_plus,
    "in base64": lambda text: base64.b64encode(text.encode()).decode(),
}


def model(**given: Any) -> ChatOpenAI:  # noqa: ANN401
    return ChatOpenAI(model="m", **({"api_key": SecretStr("any-key")} | given))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "place",
    [
        "key",
        "default_query",
        "query of the address",
        "user",
        "password",
        "header",
        "behind its scheme",
        "cookie",
    ],
)
def test_a_secret_is_blanked_out_wherever_it_was_given(place: str, secret: str, way: str) -> None:
    encoded = quote(secret, safe="")
    models = {
        "key": {"api_key": SecretStr(secret)},
        "default_query": {"default_query": {"code": secret}},
        "query of the address": {"base_url": f"https://host/v1?code={encoded}&api=2024"},
        "user": {"base_url": f"https://{encoded}@host/v1"},
        "password": {"base_url": f"https://me:{encoded}@host/v1"},
        "header": {"default_headers": {"X-Token": secret}},
        "behind its scheme": {"default_headers": {"Authorization": f"Bearer {secret}"}},
        "cookie": {"default_headers": {"Cookie": f"theme=dark; session={secret}; a=b"}},
    }
    said = WAYS[way](secret)
    shown = redact(f"the server got {said}, it says", secrets_of(model(**models[place])))
    assert said not in shown
    assert shown.startswith("the server got [hidden]")
    assert shown.endswith(", it says")


def test_basic_credentials_are_blanked_out_as_they_are_sent() -> None:
    secrets = secrets_of(model(base_url="https://me:pass%20word@host/v1"))
    sent = base64.b64encode(b"me:pass word").decode()
    assert sent not in redact(f"Authorization: Basic {sent}", secrets)


def test_so_is_the_query_of_an_azure_deployment() -> None:
    azure = AzureChatOpenAI(
        azure_endpoint="https://host/?sig=canary",
        api_version="2024-06-01",
        api_key=SecretStr("key1"),
    )
    assert "canary" in secrets_of(azure)


def test_ordinary_fields_are_no_secrets() -> None:
    plain = model(logit_bias={12: 1}, default_headers={"Accept": "text/html"})
    assert set(secrets_of(plain)) == {"any-key", "YW55LWtleQ"}
