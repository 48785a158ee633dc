"""Tests clients of OpenAI's APIs with `serve` and SmolLM2: OpenAI's client, openai-agents and LangChain with
/v1/responses; LangChain, LangGraph, LiteLLM, Instructor, Pydantic AI, smolagents and LlamaIndex with
/v1/chat/completions. Each client requests whole and streamed outputs, an output that fits a schema, function calls
and, if it supports them, log probabilities. scripts/bootstrap.sh installs the clients in build/venv-agents."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Literal

import pydantic
import pytest

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "apps"), str(ROOT / "scripts")]

from servers import Server  # noqa: E402
from support import SMOLLM2  # noqa: E402

ASK = "What is the weather in Bern? Call a function."
MESSAGES = [{"role": "user", "content": ASK}]


class City(pydantic.BaseModel):
    """A city."""

    model_config = pydantic.ConfigDict(extra="forbid")
    name: str = pydantic.Field(max_length=12)
    size: Literal["small", "large"]


def weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: Its name.
    """
    return f"It is sunny in {city}."


WEATHER = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}}, "required": ["city"],
           "additionalProperties": False}
FUNCTION = {"name": "weather", "description": "The weather of a city.", "parameters": WEATHER}
TOOL = {"type": "function", "function": FUNCTION}


@pytest.fixture(scope="module")
def url():
    if not SMOLLM2.exists():
        pytest.skip(f"{SMOLLM2} is not there: make smollm2 fetches it")
    with Server("folio", SMOLLM2, sequences=4, context=4096, threads=2, more=["--name", "m"]) as serve:
        yield f"{serve.url}/v1"


def assert_calls(calls):
    """Asserts that each call (name, arguments) calls `weather` with a city."""
    assert calls and all(name == "weather" and set(given) == {"city"} for name, given in calls), calls


# ---- /v1/responses ----

@pytest.fixture
def openai_client(url):
    import openai
    return openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=300)


def test_openai_client_with_responses(openai_client):
    fields = {"model": "m", "input": "Say hello.", "max_output_tokens": 20, "temperature": 0}
    whole = openai_client.responses.create(**fields)
    streamed = list(openai_client.responses.create(**fields, stream=True))
    assert "".join(e.delta for e in streamed if e.type == "response.output_text.delta") == whole.output_text != ""
    parsed = openai_client.responses.parse(model="m", input="Name a city.", text_format=City, temperature=0)
    assert isinstance(parsed.output_parsed, City)
    with openai_client.responses.stream(model="m", input="Name a city.", text_format=City, temperature=0) as stream:
        for _ in stream:
            pass
        assert stream.get_final_response().output_parsed == parsed.output_parsed


def test_openai_client_calls_with_responses(openai_client):
    items = [{"role": "user", "content": ASK}]
    made = openai_client.responses.create(model="m", input=items, tools=[{"type": "function", **FUNCTION}],
                                          tool_choice="required", temperature=0)
    calls = [item for item in made.output if item.type == "function_call"]
    assert_calls([(call.name, json.loads(call.arguments)) for call in calls])
    items += made.output
    items += [{"type": "function_call_output", "call_id": call.call_id, "output": "sunny"} for call in calls]
    assert openai_client.responses.create(model="m", input=items, max_output_tokens=30).output_text


@pytest.mark.parametrize("responses", [False, True])
def test_langchain(url, responses):
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_openai import ChatOpenAI
    chat = ChatOpenAI(base_url=url, api_key="none", model="m", temperature=0, max_retries=0, timeout=300, use_responses_api=responses)
    short = chat.bind(max_tokens=20)
    assert short.invoke("Say hello.").text == "".join(chunk.text for chunk in short.stream("Say hello.")) != ""
    for method in ["json_schema", "function_calling"]:
        assert isinstance(chat.with_structured_output(City, method=method).invoke("Name a city."), City)
    asked = chat.bind_tools([TOOL], tool_choice="required")
    answer = asked.invoke(ASK)
    assert_calls([(call["name"], call["args"]) for call in answer.tool_calls])
    chunks = None
    for chunk in asked.stream(ASK):
        chunks = chunk if chunks is None else chunks + chunk
    assert [(c["name"], c["args"]) for c in chunks.tool_calls] == [(c["name"], c["args"]) for c in answer.tool_calls]
    told = [ToolMessage("sunny", tool_call_id=call["id"]) for call in answer.tool_calls]
    assert short.invoke([HumanMessage(ASK), answer, *told]).text
    if not responses:
        logprobs = short.bind(logprobs=True, top_logprobs=2).invoke("Say hello.").response_metadata["logprobs"]["content"]
        assert logprobs and all(len(token["top_logprobs"]) == 2 for token in logprobs)


def test_langgraph(url):
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode
    tools = [tool(weather)]
    chat = ChatOpenAI(base_url=url, api_key="none", model="m", temperature=0, max_retries=0, timeout=300)

    def model(state: MessagesState):
        is_told = isinstance(state["messages"][-1], ToolMessage)
        asked = chat.bind_tools(tools, tool_choice="none" if is_told else "required", parallel_tool_calls=False)
        return {"messages": [asked.invoke(state["messages"], max_tokens=20 if is_told else 1500)]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", ToolNode(tools, handle_tool_errors=False))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    graph.add_edge("tools", "model")
    _, called, told, said = graph.compile().invoke({"messages": [HumanMessage(ASK)]})["messages"]
    assert called.tool_calls[0]["id"] == told.tool_call_id and told.status == "success" and not said.tool_calls


@pytest.mark.parametrize("api", ["responses", "chat"])
def test_openai_agents(url, api):
    import agents
    import openai
    client = openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=300)
    kind = agents.OpenAIResponsesModel if api == "responses" else agents.OpenAIChatCompletionsModel
    model = kind(model="m", openai_client=client)
    settings = agents.ModelSettings(temperature=0, max_tokens=60)

    async def run():
        plain = agents.Agent(name="a", instructions="Be brief.", model=model, model_settings=settings)
        whole = await agents.Runner.run(plain, "Say hello.")
        streamed = agents.Runner.run_streamed(plain, "Say hello.")
        deltas = [event.data.delta async for event in streamed.stream_events()
                  if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"]
        assert "".join(deltas) == whole.final_output == streamed.final_output != ""
        shaped = agents.Agent(name="a", model=model, output_type=City, model_settings=agents.ModelSettings(temperature=0))
        assert isinstance((await agents.Runner.run(shaped, "Name a city.")).final_output, City)
        caller = agents.Agent(name="a", model=model, tools=[agents.function_tool(weather)],
                              model_settings=agents.ModelSettings(temperature=0, tool_choice="required", max_tokens=200))
        done = await agents.Runner.run(caller, ASK)
        kinds = [item.type for item in done.new_items]
        assert kinds.count("tool_call_item") == kinds.count("tool_call_output_item") >= 1 and done.final_output

    asyncio.run(run())


# ---- /v1/chat/completions ----

def test_litellm(url):
    import litellm
    ask = lambda **more: litellm.completion(model="openai/m", api_base=url, api_key="none", temperature=0, timeout=300,
                                            **{"messages": MESSAGES, "max_tokens": 200, **more})
    hello = [{"role": "user", "content": "Say hello."}]
    whole = ask(messages=hello, max_tokens=20, logprobs=True, top_logprobs=2)
    pieces = [chunk.choices[0].delta.content or "" for chunk in ask(messages=hello, max_tokens=20, stream=True)]
    assert "".join(pieces) == whole.choices[0].message.content != ""
    assert len(whole.choices[0].logprobs.content[0].top_logprobs) == 2
    assert City.model_validate_json(ask(response_format=City).choices[0].message.content)
    calls = ask(tools=[TOOL], tool_choice="required").choices[0].message.tool_calls
    assert_calls([(call.function.name, json.loads(call.function.arguments)) for call in calls])


@pytest.mark.parametrize("mode", ["TOOLS", "JSON_SCHEMA"])
def test_instructor(url, mode):
    import instructor
    import openai
    client = instructor.from_openai(openai.OpenAI(base_url=url, api_key="none", timeout=300), mode=instructor.Mode[mode])
    fields = {"model": "m", "messages": [{"role": "user", "content": "Name a city."}], "response_model": City, "max_retries": 0,
              "temperature": 0}
    whole = client.chat.completions.create(**fields)
    *_, last = client.chat.completions.create_partial(**fields)
    assert isinstance(whole, City) and City.model_validate(last.model_dump())


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_pydantic_ai(url, api):
    from pydantic_ai import Agent, NativeOutput, ToolOutput, UsageLimitExceeded, UsageLimits
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider
    kind = OpenAIChatModel if api == "chat" else OpenAIResponsesModel
    model = kind("m", provider=OpenAIProvider(base_url=url, api_key="none"))
    settings = {"temperature": 0, "max_tokens": 200}

    async def run():
        plain = Agent(model, model_settings=settings | {"max_tokens": 20})
        whole = (await plain.run("Say hello.")).output
        async with plain.run_stream("Say hello.") as result:
            assert await result.get_output() == whole != ""
        for output in (NativeOutput(City), ToolOutput(City)):
            assert isinstance((await Agent(model, output_type=output, model_settings=settings).run("Name a city.")).output, City)
        called = []

        def note(city: str) -> str:
            """The weather of a city."""
            called.append(city)
            return "sunny"

        # With ToolOutput, each reply must call a tool: `note`, or the one that returns a City.
        agent = Agent(model, tools=[note], output_type=ToolOutput(City), model_settings=settings)
        try:
            assert isinstance((await agent.run(ASK, usage_limits=UsageLimits(request_limit=3))).output, City)
        except UsageLimitExceeded:  # the model calls `note` again and again
            assert len(called) >= 3

    asyncio.run(run())


def test_smolagents(url):
    from smolagents import OpenAIModel, tool
    model = OpenAIModel(model_id="m", api_base=url, api_key="none", temperature=0, max_tokens=200)
    hello = [{"role": "user", "content": [{"type": "text", "text": "Say hello."}]}]
    whole = model.generate(hello, max_tokens=20).content
    assert "".join(delta.content or "" for delta in model.generate_stream(hello, max_tokens=20)) == whole != ""
    shaped = model.generate(hello, response_format={"type": "json_schema", "json_schema": {
        "name": "city", "schema": City.model_json_schema(), "strict": True}})
    assert City.model_validate_json(shaped.content)
    message = model.generate([{"role": "user", "content": [{"type": "text", "text": ASK}]}], tools_to_call_from=[tool(weather)])
    given = [call.function.arguments for call in message.tool_calls]
    assert_calls([(call.function.name, json.loads(one) if isinstance(one, str) else one)
                  for call, one in zip(message.tool_calls, given)])


def test_llama_index(url):
    from llama_index.core import PromptTemplate
    from llama_index.core.llms import ChatMessage
    from llama_index.core.tools import FunctionTool
    from llama_index.llms.openai_like import OpenAILike
    model = OpenAILike(model="m", api_base=url, api_key="none", is_chat_model=True, is_function_calling_model=True,
                       temperature=0, max_tokens=200, timeout=300, max_retries=0)
    hello = [ChatMessage(role="user", content="Say hello.")]
    whole = model.chat(hello, max_tokens=20).message.content
    assert "".join(chunk.delta or "" for chunk in model.stream_chat(hello, max_tokens=20)) == whole != ""
    assert isinstance(model.structured_predict(City, PromptTemplate("Name a city.")), City)
    tool = FunctionTool.from_defaults(weather)
    made = model.chat_with_tools([tool], user_msg=ASK, tool_required=True)
    assert_calls([(call.tool_name, call.tool_kwargs) for call in model.get_tool_calls_from_response(made)])
    with_logprobs = OpenAILike(model="m", api_base=url, api_key="none", is_chat_model=True, max_tokens=20, timeout=300,
                               logprobs=True, top_logprobs=2)
    assert with_logprobs.chat(hello).logprobs
