"""Errors and accounts call a model by its name and its server, never by its credentials."""

from __future__ import annotations

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from pb_graph.models.chat_models import describe_model, name_of
from tests.support.chat_model import ScriptedChat

KEY = SecretStr("x")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://me:secret@host:8000/v1?key=secret", "gpt-oss at http://host:8000/v1"),
        ("https://api.example.com/v1", "gpt-oss at https://api.example.com/v1"),
    ],
)
def test_an_address_is_shown_without_credentials(url: str, shown: str) -> None:
    assert (
        describe_model(ChatOpenAI(model="gpt-oss", base_url=url, api_key=KEY)).rstrip("/") == shown
    )


def test_a_model_without_an_address_has_its_name_and_one_without_a_name_its_class() -> None:
    assert describe_model(ScriptedChat(model_name="small")) == "small"
    assert name_of(FakeListChatModel(responses=["?"])) == "FakeListChatModel"
