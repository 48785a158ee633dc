"""Tests that bad arguments give one-line errors: wrong types, cyclic, deep, endless, or changed while they are read."""

import collections
import itertools
import types

import numpy as np
import pytest

import folio
from folio import fast_llm
from folio.faster_transformer import Llama
from folio.service import Service

LONE = "a\ud800b"


def cyclic_list():
    value = []
    value.append(value)
    return value


def cyclic_dict():
    value = {}
    value["a"] = value
    return value


def deep(levels=100_000):
    value = "x"
    for _ in range(levels):
        value = [value]
    return value


def deep_dict(levels=100_000):
    value = {}
    for _ in range(levels):
        value = {"properties": value}
    return value


class Sequence(collections.UserList):
    pass


class ToItself:
    def tolist(self):
        return self


class Endless:
    """A sequence whose length is 1, although iterating over it never ends."""

    def __len__(self):
        return 1

    def __getitem__(self, i):
        return 1


class EndlessItems:
    """A mapping that is not registered as collections.abc.Mapping, and whose items never end."""

    def __getitem__(self, key):
        return 1

    def __len__(self):
        return 1

    def keys(self):
        return itertools.repeat("a")

    def items(self):
        return itertools.repeat(("a", 1))


class ItemsThatAreNoPairs(EndlessItems):
    def items(self):
        return [1, 2]


def refused(call, *errors, match=None):
    """Asserts that the call raises one of the errors, by default TypeError or ValueError, with a message of one line."""
    with pytest.raises(errors or (TypeError, ValueError), match=match) as error:
        call()
    message = str(error.value)
    assert message and "\n" not in message and "bad_cast" not in message, message


@pytest.mark.parametrize("make", [cyclic_list, cyclic_dict, deep, deep_dict, lambda: {"a": cyclic_list()},
                                  lambda: collections.UserDict(a=cyclic_list()), lambda: Sequence([cyclic_list()]), ToItself,
                                  lambda: range(10**12), Endless, lambda: np.broadcast_to(np.int32(1), (10**6, 10**6)),
                                  lambda: object(), lambda: b"a", lambda: range(10**30), lambda: np.int64])
def test_structures_outside_json_are_rejected(chats, make):
    value = make()
    calls = [lambda: chats.generate(value), lambda: chats.generate([value]), lambda: chats.chat(value),
             lambda: chats.chat([{"role": "user", "content": value}]), lambda: chats.complete(messages=[value]),
             lambda: chats.complete(messages="a", tools=[value]), lambda: chats.generate("a", stop=value),
             lambda: chats.generate("a", choice=value), lambda: chats.complete("a", choice=value),
             lambda: chats.tokenizer.apply_chat_template(value), lambda: chats.tokenizer.decode([value]),
             lambda: list(chats.stream("a", response_format=value)), lambda: chats.beam("a", 2, grammar=value),
             lambda: chats.generate("a", temperature=value), lambda: chats.generate("a", json_schema={"const": value})]
    for call in calls:
        refused(call, TypeError, ValueError, folio.Error)


def test_deep_nesting_error_names_the_option(chats):
    for call in (chats.generate, chats.complete):
        with pytest.raises(ValueError, match="^'stop' is nested deeper than 64 levels, or contains itself$"):
            call("a", stop=cyclic_list())
        with pytest.raises(ValueError, match="^'json_schema' is nested deeper"):
            call("a", json_schema=cyclic_dict())
        with pytest.raises(ValueError, match="^'structured_outputs' is nested deeper"):
            call("a", structured_outputs={"json": deep_dict()})


@pytest.mark.parametrize("option", ["stop", "choice"])
@pytest.mark.parametrize("value, why", [(range(10**30), "values"), (str, "not type"), (np.int64, "not type"),
                                        (EndlessItems(), "values"), (ItemsThatAreNoPairs(), "not ItemsThat"),
                                        (types.SimpleNamespace(items=[1]), "not SimpleNamespace")])
def test_errors_about_sizes_and_types_name_the_option(chats, option, value, why):
    with pytest.raises((TypeError, ValueError), match=f"^'{option}'.*{why}"):
        chats.generate("a", **{option: value})


def test_inputs_changed_while_read_are_safe(chats):
    class Grows:
        def __init__(self, change):
            self.change = change

        def __index__(self):
            self.change()
            return 1

    ids = []
    ids += [Grows(lambda: ids.append(Grows(lambda: None))), 2]
    bias = {}
    bias["1"] = Grows(lambda: bias.update({str(i): 1 for i in range(2, 1000)}))
    expected = chats.generate([1, 2], seed=1, max_tokens=5, logit_bias={"1": 1})
    assert chats.generate([1, 2], seed=1, max_tokens=5, logit_bias=bias) == expected and len(bias) == 999
    assert chats.tokenizer.decode(ids) == chats.tokenizer.decode([1, 2]) and len(ids) == 3


def test_inputs_may_close_the_model_while_read(golden_gguf):
    class Closes:
        def __init__(self, model):
            self.model = model

        def __index__(self):
            self.model.close()
            return 1

    for use in (lambda model, one: model.tokenizer.decode([one]), lambda model, one: model.generate([one]),
                lambda model, one: model.logits([one])):
        model = folio.Model(golden_gguf, threads=1)
        with pytest.raises(folio.Error, match="the model is closed"):
            use(model, Closes(model))


def test_other_mappings_and_sequences_are_accepted(chats):
    message = types.MappingProxyType({"role": "user", "content": "a"})
    ids = chats.tokenizer.apply_chat_template([dict(message)])
    assert chats.tokenizer.apply_chat_template(collections.deque([message])) == ids
    assert chats.tokenizer.apply_chat_template(Sequence([collections.UserDict(message)])) == ids
    text = chats.generate("a", choice=["yes", "no"], seed=1)
    for choice in (("yes", "no"), Sequence(["yes", "no"]), np.array(["yes", "no"])):
        assert chats.generate("a", choice=choice, seed=1) == text
        assert chats.complete("a", choice=choice, seed=1, temperature=0.8, top_p=0.95)["choices"][0]["text"] == text


def test_large_seeds_differ(model):
    texts = {model.complete("ROMEO:", seed=2**53 - i)["seed"] for i in (1, 2)}
    assert len(texts) == 2


@pytest.mark.parametrize("text", [LONE, "\udfff", "a" * 1000 + "\udc80", type("Text", (str,), {})(LONE)])
def test_lone_surrogates_are_value_errors(chats, chat_gguf, text):
    service = Service(chats) if chats._service is None else chats._service
    adapter = fast_llm.model(chats)
    told = [{"role": "user", "content": text}]
    calls = [
        lambda: chats.generate(text), lambda: chats.generate(["a", text]), lambda: chats.generate("a", stop=["b", text]),
        lambda: chats.generate("a", regex=text), lambda: chats.generate("a", json_schema=text),
        lambda: chats.generate("a", json_schema={"const": text}), lambda: chats.generate("a", json_schema={text: 1}),
        lambda: chats.generate("a", **{text: 1}), lambda: chats.generate("a", logit_bias={text: 1}), lambda: chats.chat(told),
        lambda: chats.chat([{"role": text, "content": "a"}]), lambda: chats.chat([{text: "a"}]), lambda: chats.beam(text, 2),
        lambda: chats.score(text), lambda: chats.complete(text), lambda: chats.complete(messages=told),
        lambda: chats.complete("a", json_schema={"const": text}), lambda: chats.complete(messages="a", tools=[{"type": text}]),
        lambda: chats.tensor(text), lambda: chats.tokenizer.encode(text), lambda: chats.tokenizer.apply_chat_template(told),
        lambda: folio.Model(text), lambda: folio.Model(chat_gguf, tokenizer=text), lambda: folio.Model(chat_gguf, name=text),
        lambda: folio.Model(chat_gguf, chat_template=text), lambda: folio.Model(chat_gguf, device=text),
        lambda: Llama(text), lambda: adapter.response(text), lambda: adapter.encode(text),
        lambda: adapter.make_history("a", 1, "a", text), lambda: Service(chats, api_key=text),
        lambda: Service(chats, allowed_hosts=[text]), lambda: service.request("GET", text),
        lambda: service.request("GET", "/v1/models", {"host": text})]
    for i, call in enumerate(calls):
        print("call", i)  # pytest shows it if the test fails
        refused(call, ValueError)


def test_lone_surrogate_errors_name_the_location(chats):
    for call in (chats.generate, chats.complete):
        with pytest.raises(ValueError, match=r"^'choice' at \[1\] has a lone surrogate \(U\+D800\) at character 1, which"):
            call("a", choice=["b", LONE])
        with pytest.raises(ValueError, match=r"^'json_schema' at properties.a.const has a lone surrogate"):
            call("a", json_schema={"properties": {"a": {"const": LONE}}})
    for code in (0xD800, 0xDFFF):  # the first two characters are the neighbors of the surrogates
        with pytest.raises(ValueError, match=rf"^text has a lone surrogate \(U\+{code:X}\) at character 2, which"):
            chats.tokenizer.encode("\ud7ff\ue000" + chr(code))


@pytest.mark.parametrize("path", [b"model.gguf", 3, None, "a\0b", object()])
def test_paths_must_be_text(golden_gguf, path):
    for call in (lambda: folio.Model(path), lambda: Llama(path), lambda: folio.Model(golden_gguf, tokenizer=path or b"a"),
                 lambda: folio.Model(golden_gguf, adapter=path or b"a")):
        refused(call)


@pytest.mark.parametrize("token", [-1, 2**31, 2**64, 10**30, "1", 1.5, None, True])
def test_tokens_must_be_in_the_vocabulary(model, token):
    for call in (lambda: model.logits([token]), lambda: model.score([1, token]), lambda: model.trace([token]),
                 lambda: model.tokenizer.token_bytes(token), lambda: model.tokenizer.decode([token]),
                 lambda: fast_llm.model(model).response("a", stop_token_ids=[token]),
                 lambda: model.generate([token]), lambda: model.explain([token])):
        refused(call, TypeError, ValueError, folio.Error)


def test_endless_token_iterators_are_rejected(model):
    with pytest.raises(ValueError, match="which no context has"):
        model.logits(itertools.repeat(1))


def test_service_options_are_type_checked(golden_gguf):
    with folio.Model(golden_gguf, threads=1) as model:
        for options in (dict(api_key=3), dict(allowed_hosts="abc"), dict(allowed_origins=[1]), dict(max_queue="many"),
                        dict(max_queue=0), dict(request_timeout=0), dict(request_timeout=1e300), dict(max_queue=2**70)):
            refused(lambda: Service(model, **options), match=next(iter(options)))
        service = Service(model)
        for wrong in (dict(body="text"), dict(body=None), dict(seed=-1), dict(seed=2**70), dict(seed="1")):
            refused(lambda: service.request("POST", "/v1/completions", **wrong))
        refused(lambda: service.request("GET", "/v1/models", {"host": 3}))


def test_read_only_arrays(golden_gguf):
    llama = Llama(golden_gguf, threads=1)
    ids = np.array([[1, 2, 3]], np.int32)
    ids.flags.writeable = False  # forward() must accept read-only inputs
    inputs = {"input_ids": ids, "input_lengths": np.array([3], np.int32), "output_seq_len": 6}
    outputs = llama.forward(llama.outputs(inputs), inputs)
    assert outputs["sequence_length"].tolist() == [[6]]
    for name in outputs:
        frozen = llama.outputs(inputs)
        frozen[name].flags.writeable = False
        with pytest.raises(ValueError, match=name):
            llama.forward(frozen, inputs)
    for name in (1, None, LONE):
        refused(lambda: llama.forward({**llama.outputs(inputs), name: np.zeros(1, np.int32)}, inputs))
    with pytest.raises(ValueError, match="output_seq_len is 2147483647, but has to be in"):
        llama.outputs({**inputs, "output_seq_len": 2**31 - 1})
