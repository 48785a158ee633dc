"""Tests structured outputs and tool calls of `serve` with instructor, LangChain and LangGraph, which raise errors if
an output can't be parsed: with SmolLM2 and with random weights, streamed and not. scripts/bootstrap.sh installs the
clients in build/venv-agents."""

import itertools
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, Optional

import instructor
import openai
import pydantic
import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "apps"), str(ROOT / "scripts")]

from chat_model import PIECES, write_chat_model  # noqa: E402
from servers import Server  # noqa: E402
from support import SMOLLM2  # noqa: E402

QUESTIONS = ["Invent a person.", "What is the weather in Bern, in C?", "How much is 3 + 4?", "Who wrote Hamlet?",
             "A short list of fruit, please.", "What time is it?", "東京の天気は?", "Say nothing."]
SEEDS = range(10)
AT_ONCE = 8
VOCABULARY = [*PIECES, ("<tool_call>", -90.0, 1)]
# A logit bias that makes random weights often write quotes, commas, ] and } (so that values end) and tool calls.
ENDS = {i: 6 for i, (text, _, _) in enumerate(VOCABULARY) if text in ("<0x22>", "<0x5D>", "<0x7D>", "<0x2C>", "<tool_call>")}


class Closed(pydantic.BaseModel):
    """A base class that forbids extra keys, since SmolLM2 would never stop adding keys."""

    model_config = pydantic.ConfigDict(extra="forbid")


class Item(Closed):
    name: str = pydantic.Field(max_length=12)
    count: int = pydantic.Field(ge=0, le=99)


class Basket(Closed):
    items: list[Item] = pydantic.Field(min_length=1, max_length=3)


class Person(Closed):
    """A person."""

    name: str = pydantic.Field(max_length=16, description="first and last name")
    kind: Literal["friend", "foe"]
    items: list[Item] = pydantic.Field(max_length=2)
    first: Optional[Item]


@tool
def get_weather(city: str, unit: Literal["C", "F"]) -> str:
    """The weather of a city."""
    return json.dumps({"city": city, "unit": unit, "sky": "clear"})


@tool
def add(a: int, b: int) -> str:
    """The sum of two numbers."""
    return str(a + b)


class Round:
    """A question to the model. Each method sends it with one client and checks the answer."""

    def __init__(self, url, bias, seed):
        self.question = QUESTIONS[seed % len(QUESTIONS)]
        self.messages = [{"role": "user", "content": self.question}]
        self.more = {"logit_bias": bias, "seed": seed, "temperature": 1.0}
        self.client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=300)
        self.chat = ChatOpenAI(base_url=f"{url}/v1", api_key="none", model="m", max_retries=0, timeout=300, max_tokens=1500,
                               **self.more)
        self.asked = {"model": "m", "messages": self.messages, "max_tokens": 1500, "max_retries": 0, **self.more}

    def instructor_json(self):
        self.instructor(instructor.Mode.JSON)

    def instructor_json_schema(self):
        self.instructor(instructor.Mode.JSON_SCHEMA)

    def instructor_tools(self):
        self.instructor(instructor.Mode.TOOLS)

    def instructor(self, mode):
        client = instructor.from_openai(self.client, mode=mode)
        if mode == instructor.Mode.JSON:  # the schema is only in the prompt: any JSON object is valid
            asked = self.asked | {"max_tokens": 200}
            answer = client.chat.completions.create(response_model=None, response_format={"type": "json_object"}, **asked)
            [choice] = answer.choices  # max_tokens may cut off its content
            assert choice.finish_reason == "length" or isinstance(json.loads(choice.message.content), dict)
            return
        whole = client.chat.completions.create(response_model=Person, **self.asked)
        *_, last = client.chat.completions.create_partial(response_model=Person, **self.asked)
        assert isinstance(whole, Person) and Person.model_validate(last.model_dump())
        # In the mode TOOLS, instructor names the function differently when streaming, so prompts and outputs differ.
        assert mode == instructor.Mode.TOOLS or last.model_dump() == whole.model_dump()

    def instructor_list(self):
        client = instructor.from_openai(self.client, mode=instructor.Mode.TOOLS)
        items = client.chat.completions.create(response_model=Basket, **self.asked).items
        assert all(isinstance(item, Item) for item in items) and 1 <= len(items) <= 3

    def langchain_schema(self):
        self.structured("json_schema")

    def langchain_function(self):
        self.structured("function_calling")

    def langchain_json(self):
        asked = self.chat.bind(response_format={"type": "json_object"}, max_tokens=200)
        try:
            answer = asked.invoke(self.question)
        except openai.LengthFinishReasonError:  # without a schema, the object may be longer than max_tokens
            return
        assert isinstance(json.loads(answer.content), dict)
        assert "".join(chunk.content for chunk in asked.stream(self.question)) == answer.content

    def structured(self, method):
        asked = self.chat.with_structured_output(Person, method=method)
        whole = asked.invoke(self.question)
        *_, last = asked.stream(self.question)
        assert isinstance(whole, Person) and last == whole

    def langchain_tools(self):
        asked = self.chat.bind_tools([get_weather, add], tool_choice="required", parallel_tool_calls=False)
        answer = asked.invoke(self.question)
        assert not answer.invalid_tool_calls and len(answer.tool_calls) == 1
        chunks = None
        for chunk in asked.stream(self.question):
            chunks = chunk if chunks is None else chunks + chunk
        assert not chunks.invalid_tool_calls
        assert [(c["name"], c["args"]) for c in chunks.tool_calls] == [(c["name"], c["args"]) for c in answer.tool_calls]
        for call in answer.tool_calls:
            result = {"get_weather": get_weather, "add": add}[call["name"]].invoke(call)
            assert isinstance(result, ToolMessage) and result.tool_call_id == call["id"]

    def langgraph_agent(self):
        """Runs a graph: the model must call a tool, gets the result, and answers in words."""
        tools = [get_weather, add]

        def model(state: MessagesState):
            is_told = isinstance(state["messages"][-1], ToolMessage)
            asked = self.chat.bind_tools(tools, tool_choice="none" if is_told else "required", parallel_tool_calls=False)
            return {"messages": [asked.invoke(state["messages"], max_tokens=20 if is_told else 1500)]}

        graph = StateGraph(MessagesState)
        graph.add_node("model", model)
        graph.add_node("tools", ToolNode(tools, handle_tool_errors=False))
        graph.add_edge(START, "model")
        graph.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
        graph.add_edge("tools", "model")
        asked, called, told, said = graph.compile().invoke({"messages": [HumanMessage(self.question)]})["messages"]
        assert called.tool_calls[0]["id"] == told.tool_call_id and told.status == "success"
        assert isinstance(said, AIMessage) and not said.tool_calls

    def langgraph_agent_may(self):
        """Lets the model decide whether to call a tool, for at most three turns."""
        chat = self.chat.bind_tools([get_weather, add])
        messages = [HumanMessage(self.question)]
        for _ in range(3):
            answer = chat.invoke(messages, max_tokens=200)
            cut_off = answer.response_metadata["finish_reason"] == "length"
            assert not answer.invalid_tool_calls or cut_off
            if not answer.tool_calls or cut_off:
                break
            messages += [answer, *({"get_weather": get_weather, "add": add}[c["name"]].invoke(c) for c in answer.tool_calls)]


KINDS = [Round.instructor_json, Round.instructor_json_schema, Round.instructor_tools, Round.instructor_list,
         Round.langchain_schema, Round.langchain_function, Round.langchain_json, Round.langchain_tools,
         Round.langgraph_agent, Round.langgraph_agent_may]


@pytest.mark.parametrize("client", ["instructor", "langchain", "langgraph"])
@pytest.mark.parametrize("name", ["random", "smollm2"])
def test_tool_rounds_without_invalid_json(name, client, tmp_path):
    if name == "smollm2" and not SMOLLM2.exists():
        pytest.skip(f"{SMOLLM2} is not there: make smollm2 fetches it")
    model = SMOLLM2 if name == "smollm2" else write_chat_model(tmp_path / "m.gguf", context=8192, pieces=VOCABULARY)
    with Server("folio", model, sequences=AT_ONCE, context=4096, threads=2, more=["--name", "m"]) as serve:
        def ask(case):
            kind, seed = case
            try:
                kind(Round(serve.url, ENDS if name == "random" else None, seed))
            except Exception as error:
                return f"{kind.__name__}, seed {seed}: {type(error).__name__}: {str(error)[:500]}"

        cases = list(itertools.product([kind for kind in KINDS if kind.__name__.startswith(client)], SEEDS))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            failed = [said for said in pool.map(ask, cases) if said]
        assert not failed, f"{len(failed)} of {len(cases)} rounds:\n" + "\n".join(failed)
