"""Compares the tokens of prompts, and the offsets of tokens in prompts and outputs, with `tokenizers`.

The models have random weights and are saved by transformers. One has a SentencePiece vocabulary (Metaspace, as
Llama's), one a byte-level vocabulary with a template that adds BOS (as Llama 3's), and one a byte-level vocabulary
with normalization (as Qwen's). Most bytes of outputs are invalid UTF-8."""

import codecs
import json
import urllib.request

import pytest
import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from api_test import client_of
from chat_model import write_chat_model
from support import HANG, LONG, succeed
from wire import post

SPECIAL = [AddedToken("<|user|>", rstrip=True, normalized=False, special=True),
           AddedToken("<|end|>", lstrip=True, normalized=False, special=True)]
PROMPTS = ["hello world", "<s>hello", " two  spaces ", "<|user|>\n hello <|end|> and\n\n", "é中😀 naïve 中中", "<s><|user|>é <s> a",
           "<tool>he<tool> llo", "hello <|end|>", "cafe\u0301 e\u0323 o\u0302hello <s>n\u0303 x"]


def sentencepiece():
    joined = ["he", "ll", "llo", "hello", "▁hello", "or", "▁w", "▁wor", "ld"]
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), *joined, "▁", "é", *"abcdefghijklmnopqrstuvwxyz"]
    merges = [(p[:i], p[i:]) for p in joined for i in range(len(p) - 1, 0, -1) if {p[:i], p[i:]} <= set(pieces)]
    fast = transformers.LlamaTokenizer(vocab={p: i for i, p in enumerate(pieces)}, merges=merges, add_bos_token=True)
    fast.add_tokens([*SPECIAL, AddedToken("<tool>", normalized=False)])
    return fast


def normalized():
    return byte_level(normalizers.NFC())


def byte_level(normalizer=None):
    tokenizer = Tokenizer(models.BPE())
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(["hello world"] * 9, trainers.BpeTrainer(
        vocab_size=270, special_tokens=["<s>", "</s>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.add_tokens([*SPECIAL, AddedToken("<tool>", normalized=False)])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 0)])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")


@pytest.fixture(scope="module", params=[sentencepiece, byte_level, normalized], ids=lambda f: f.__name__)
def model(request, server, tmp_path_factory):
    """Returns a server, the directory of its model, and transformers' tokenizer."""
    folder = tmp_path_factory.mktemp(request.param.__name__)
    fast = request.param()
    torch.manual_seed(3)
    transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=len(fast) + 5, hidden_size=24, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128, tie_word_embeddings=False,
        bos_token_id=fast.bos_token_id, eos_token_id=fast.eos_token_id)).save_pretrained(folder)
    fast.save_pretrained(folder)
    served = server(folder, "-t", "1", "--name", "random")
    served.endless = {str(i): -100 for i, token in fast.added_tokens_decoder.items() if token.special}
    return served, folder, fast


def complete(served, **fields):
    """Returns the response's only choice, after checking that no JSON object has a duplicate key."""
    def once(pairs):
        assert len(dict(pairs)) == len(pairs), pairs
        return dict(pairs)

    body = json.dumps({"model": "random", "seed": 1, "logit_bias": served.endless, **fields}).encode()
    request = urllib.request.Request(served.url + "/v1/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=HANG) as reply:
        return json.loads(reply.read(), object_pairs_hook=once)["choices"][0]


def encoded(fast, text, parse_special=True):
    """Returns the text's encoding by `tokenizers`, without BOS."""
    tokenizer = Tokenizer.from_str(fast.backend_tokenizer.to_str())
    tokenizer.encode_special_tokens = not parse_special
    return tokenizer.encode(text, add_special_tokens=False)


def with_bos(fast, ids):
    return ids if ids[:1] == [fast.bos_token_id] else [fast.bos_token_id, *ids]


@pytest.mark.parametrize("text", PROMPTS)
def test_special_tokens_in_prompts_are_parsed_by_default(model, text, tmp_path):
    served, folder, fast = model
    parsed, plain = encoded(fast, text).ids, encoded(fast, text, parse_special=False).ids
    assert ("<" in text and "<tool>" not in text) == (parsed != plain)
    for fields, ids in [({}, with_bos(fast, parsed)), ({"parse_special": False}, with_bos(fast, plain)),
                        ({"add_special_tokens": False}, parsed),
                        ({"parse_special": False, "add_special_tokens": False}, plain)]:
        assert post(served, "/tokenize", {"prompt": text, **fields})[1]["tokens"] == ids
        scored = complete(served, prompt=text, echo=True, max_tokens=0, logprobs=0, **fields)
        assert [entry["id"] for entry in scored["logprobs"]["content"]] == ids
        assert scored["text"] == text
    if text not in PROMPTS[3:6] and not LONG:
        return
    for flags, ids in ((), parsed), (("--no-parse-special",), plain):
        (tmp_path / "text").write_text(text)
        done = succeed("tokenize", "encode", "-t", folder, *flags, tmp_path / "text")
        assert [int(i) for i in done.stdout.split()] == ids


def test_empty_prompt(model):
    served, _, fast = model
    assert post(served, "/tokenize", {"prompt": ""})[1]["tokens"] == [fast.bos_token_id]
    assert post(served, "/tokenize", {"prompt": "", "add_special_tokens": False})[1]["tokens"] == []
    assert complete(served, prompt="", add_special_tokens=False, max_tokens=1)["text"] is not None


def test_prompt_fields_are_rejected_for_messages(server, tmp_path):
    chatty = server(write_chat_model(tmp_path / "chat.gguf"), "-t", "1")
    messages = [{"role": "user", "content": "<|im_end|>"}]
    for field in ("parse_special", "add_special_tokens"):
        status, answer = post(chatty, "/tokenize", {"messages": messages, field: True})
        assert status == 400 and answer["error"]["param"] == field and "'prompt'" in answer["error"]["message"]


@pytest.mark.parametrize("parse_special", [True, False])
@pytest.mark.parametrize("text", PROMPTS)
def test_text_offset_matches_tokenizers(model, text, parse_special):
    """A BOS that the server adds has offset 0. A control token in the prompt has the offset of its text."""
    served, _, fast = model
    theirs = encoded(fast, text, parse_special)
    n_added = len(with_bos(fast, theirs.ids)) - len(theirs.ids)
    done = complete(served, prompt=text, echo=True, max_tokens=4, logprobs=3, parse_special=parse_special)
    offsets = done["logprobs"]["text_offset"]
    starts = [start for start, _ in theirs.offsets]
    assert offsets[:n_added] == [0] * n_added
    assert offsets[n_added:n_added + len(starts)] == starts
    assert offsets[n_added + len(starts)] == len(text)


def places(data):
    """Returns the decoded text, and for each byte the index of its character in data.decode(errors="replace")."""
    broken = {}

    def note(error):
        broken[error.start] = error.end
        return "\uFFFD", error.end

    codecs.register_error("note", note)
    text = data.decode(errors="note")
    result, at = [], 0
    for i, character in enumerate(text):
        end = broken.get(at, at + len(character.encode()))
        result += [i] * (end - at)
        at = end
    return text, result + [len(text)]


@pytest.mark.parametrize("echo", [False, True])
def test_text_offsets_index_the_output(model, echo):
    served, *_ = model
    fields = dict(prompt="hello é", echo=echo, max_tokens=100, logprobs=20, temperature=1.5)
    done = complete(served, **fields)
    logprobs = done["logprobs"]
    start = len(logprobs["content"]) - 100
    made = [bytes(token["bytes"]) for token in logprobs["content"][start:]]
    prefix = b"hello \xc3\xa9" if echo else b""
    text, place = places(prefix + b"".join(made))
    assert done["text"] == text and "\uFFFD" in text
    at, expected = len(prefix), []
    for part in made:
        expected.append(place[at])
        at += len(part)
    assert logprobs["text_offset"][start:] == expected
    # A stream has the same offsets, although a character of several tokens is sent with the last of them.
    seen = {name: [] for name in logprobs}
    for chunk in client_of(served).completions.create(model="random", seed=1, stream=True,
                                                            logit_bias=served.endless, **fields):
        for name in seen if chunk.choices[0].logprobs else ():
            seen[name] += getattr(chunk.choices[0].logprobs, name)
    assert seen == logprobs


def test_alternatives_have_distinct_names(model):
    """A token that is only a part of a character is named as in OpenAI's API, such as "bytes:\\xe2\\x80"."""
    served, *_ = model
    done = complete(served, prompt="hello", max_tokens=60, logprobs=20, temperature=1.5)
    n_parts = 0
    for top, entry, token in zip(done["logprobs"]["top_logprobs"], done["logprobs"]["content"], done["logprobs"]["tokens"]):
        assert len(top) == len(entry["top_logprobs"]) == 20  # names are distinct
        assert token == entry["token"]
        for name, alternative in zip(top, entry["top_logprobs"]):
            data = bytes(alternative["bytes"])
            try:
                assert name in (data.decode(), f"token_id:{alternative['id']}")
            except UnicodeDecodeError:
                n_parts += 1
                assert name.startswith("bytes:") and codecs.escape_decode(name[len("bytes:"):])[0] == data
    assert n_parts > 20
