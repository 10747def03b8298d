"""A model is called by its name and its server, and its own client never repeats a request."""

from __future__ import annotations

from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import FakeListChatModel
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from pb_graph.models.options import copy_for_calls, describe_model, name_of
from tests.support.chat_model import ScriptedChat

KEY = SecretStr("sk-test")


def test_an_address_is_shown_without_credentials() -> None:
    url = "http://me:secret@host:8000/v1?key=secret"
    model = ChatOpenAI(model="gpt-oss", base_url=url, api_key=KEY)
    assert describe_model(model) == "gpt-oss at http://host:8000/v1/"


def test_a_model_without_an_address_has_its_name_and_one_without_a_name_its_class() -> None:
    assert describe_model(ScriptedChat(model_name="small")) == "small"
    assert name_of(FakeListChatModel(responses=["?"])) == "FakeListChatModel"


def test_openai_repeats_nothing_and_keeps_its_connections() -> None:
    model = ChatOpenAI(model="m", api_key=KEY)
    copy = copy_for_calls(model)
    for name in ("root_client", "root_async_client"):
        before, after = getattr(model, name), getattr(copy, name)
        assert (before.max_retries, after.max_retries) == (2, 0)
        assert after._client is before._client
    assert copy.client._client.max_retries == copy.async_client._client.max_retries == 0


def test_anthropic_repeats_nothing_after_a_call_of_its_own_either() -> None:
    model = ChatAnthropic(model_name="claude-sonnet-5", api_key=KEY)
    assert (model._client.max_retries, model._async_client.max_retries) == (2, 2)
    copy = copy_for_calls(model)
    assert (copy._client.max_retries, copy._async_client.max_retries) == (0, 0)
    assert model._client.max_retries == 2


def test_google_makes_one_attempt() -> None:
    model = ChatGoogleGenerativeAI(model="gemini-x", api_key=KEY, max_retries=6)
    assert copy_for_calls(model).max_retries == 1
