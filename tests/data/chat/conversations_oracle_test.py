"""Compares the tokens of a conversation, and which of them are learned, with transformers' apply_chat_template and its
assistant_masks. transformers needs templates that mark answers with {% generation %}. They are from this file or TRL.
Published templates have no such tags: Folio finds the answers by comparing renderings."""

import itertools
import json
import os
import pathlib
import random
import subprocess

import pytest
import transformers
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split

from published_templates import CHATML, LLAMA3, SMOLLM2, TRL, ZEPHYR

TOOL = os.environ["FOLIO_CHAT_TEMPLATE_TOOL"]
MODEL = pathlib.Path(__file__).parents[3] / "data/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
LONG = "FOLIO_LONG" in os.environ  # set by `make long`: all conversations are compared

# Special tokens that occur in the tested templates.
MARKS = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
         "<|eot_id|>", "<start_of_turn>", "<end_of_turn>", "<|end|>", "<|user|>", "<|assistant|>", "<|system|>"]
CONTENTS = ["Hello", "Ünïcode 中文 😀", "12345.", " both ends ", "\n", "\n\nlines\nand lines\n\n", "a\n", "ends with a colon:",
            "quotes ' and \"", "tab\t", "…", "<b>", "x" * 40, "It's 7 o'clock\r\n", "'s", ".", " "]


def chatml_with_tags(template, expression, answer):
    """Returns `template`, changed so that `expression` renders only users' and system messages. Assistant messages are
    rendered by `answer`, which has {% generation %} tags."""
    assert template.count(expression) == 1
    return template.replace(expression, "{% if message['role'] == 'assistant' %}" + answer + "{% else %}" + expression +
                            "{% endif %}")


CHATML_LINE = "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}"
CHATML_ANSWER = ("{{'<|im_start|>assistant\\n'}}{% generation %}{{message['content'] + '<|im_end|>'}}{% endgeneration %}"
                 "{{'\\n'}}")
TAGGED = {
    "SmolLM2": (SMOLLM2, chatml_with_tags(SMOLLM2, CHATML_LINE, CHATML_ANSWER)),
    "ChatML": (CHATML, chatml_with_tags(CHATML, CHATML_LINE, CHATML_ANSWER)),
    "Zephyr": (ZEPHYR, ZEPHYR.replace("{{ '<|assistant|>\\n'  + message['content'] + eos_token }}",
                                      "{{ '<|assistant|>\\n' }}{% generation %}{{ message['content'] + eos_token }}"
                                      "{% endgeneration %}{{ '' }}")),
}
# Without special tokens around answers, a token can extend beyond an answer's start (" Hello") or end (".\\n\\n").
PLAIN = ("{% for message in messages %}{{ message['role'] + ': ' }}{% if message['role'] == 'assistant' %}{% generation %}"
         "{{ message['content'] }}{% endgeneration %}{% else %}{{ message['content'] }}{% endif %}{{ '\\n\\n' }}{% endfor %}")
# Models whose training templates in TRL render like the published ones, but also train on the line break after answers.
TRL_PAIRS = ["llama3", "gemma", "gemma3", "qwen3_instruct_2507", "cohere"]


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory):
    """Returns SmolLM2's tokenizer twice: exported from its GGUF for transformers, and the GGUF's path for Folio."""
    if not MODEL.exists():
        pytest.skip("SmolLM2 is there after `make smollm2`")
    folder = tmp_path_factory.mktemp("smollm2")
    subprocess.run([os.environ["FOLIO_TOKENIZER_TOOL"], "to-hf", MODEL, folder], check=True, capture_output=True)
    return transformers.AutoTokenizer.from_pretrained(folder), MODEL


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Returns a tokenizer of 600 tokens and its directory. As in Llama 3, ".\\n" or several "\\n" can be one token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = Sequence([Split(Regex(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
        r"\s+(?!\S)|\s+"), "isolated"), ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=600, show_progress=False, special_tokens=MARKS,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([SMOLLM2, LLAMA3, *CONTENTS, "Hello! lines.\n\nWhy?\n\n\n.\n:\n\n?\n assistant user " * 9], trainer)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")
    folder = tmp_path_factory.mktemp("small")
    fast.save_pretrained(folder)
    return fast, folder


def conversations(systems=(False, True)):
    """Yields chats in which one message is replaced by each of CONTENTS, at each position; then random chats."""
    for system, turns in itertools.product(systems, (1, 3) if LONG else (3,)):
        n = 2 * turns + system
        for place, content in itertools.product(range(n), CONTENTS):
            words = ["Be brief."] * system + ["Hi.", "Hello!", "Why?", "So.", "Who?", "Me."][:2 * turns]
            words[place] = content
            yield [{"role": "system" if system and i == 0 else ("user", "assistant")[(i - system) % 2], "content": word}
                   for i, word in enumerate(words)]
    rng = random.Random(5)
    for _ in range(300 if LONG else 40):
        yield [{"role": ("user", "assistant")[i % 2], "content": "".join(rng.choices("a1.\n\t é中'!", k=rng.randrange(9)))}
               for i in range(2 * rng.randrange(1, 4))]


def ours(path, requests, tools=None):
    """Returns Folio's training examples for each request (tokenizer, template, conversations), one per conversation. If
    the template is None, Folio uses the tokenizer's."""
    asked = []
    for i, (tokenizer, template, chats) in enumerate(requests):
        lines = path / f"{i}.jsonl"
        lines.write_text("".join(json.dumps({"messages": chat, "tools": tools}) + "\n" for chat in chats), encoding="utf-8")
        asked.append({"tokenizer": str(tokenizer), **({"template": template} if template else {}), "conversations": str(lines)})
    (path / "requests.json").write_text(json.dumps(asked))
    done = subprocess.run([TOOL, path / "requests.json"], capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def theirs(tokenizer, template, chat, tools=None):
    """Returns a chat's tokens and the mask of learned tokens from transformers, up to the last learned token."""
    encoded = tokenizer.apply_chat_template(chat, chat_template=template, tools=tools, return_dict=True,
                                            return_assistant_tokens_mask=True)
    mask = encoded["assistant_masks"]
    n = len(mask) - mask[::-1].index(1)
    return {"tokens": encoded["input_ids"][:n], "learned": mask[:n]}


def assert_same(found, tokenizer, template, chats, next_turn=()):
    assert len(found) == len(chats), found
    for example, chat in zip(found, chats):
        expected = theirs(tokenizer, template, [*chat, *next_turn])
        assert (example["tokens"], example["learned"]) == (expected["tokens"], expected["learned"]), chat


# In NEXT, as in GLM-4's template, the next turn's role token ends an answer, so this token must be learned, too.
# NEXT_TAGGED is the same template for transformers, with {% generation %} tags around answers and these role tokens.
NEXT = "{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
NEXT_TAGGED = ("{% for m in messages %}{% set mark = '<|' + m.role + '|>' %}{% if loop.previtem is defined and loop.previtem.role == 'assistant' %}"
               "{% generation %}{{ mark }}{% endgeneration %}{% else %}{{ mark }}{% endif %}{{ '\n' }}{% if m.role == 'assistant' %}"
               "{% generation %}{{ m.content }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}")


def test_next_turns_marker_is_learned_as_the_end(small, tmp_path):
    tokenizer, folder = small
    # Answers must end in ASCII, because transformers marks only the first token of a character that has several.
    chats = [chat for chat in conversations() if all(m["content"] and m["content"][-1].isascii() for m in chat if m["role"] == "assistant")]
    [found] = ours(tmp_path, [(folder, NEXT, chats)])
    end = tokenizer.convert_tokens_to_ids("<|user|>")
    assert_same(found, tokenizer, NEXT_TAGGED, chats, [{"role": "user", "content": ""}])
    assert all(example["tokens"][-1] == end and example["learned"][-1] == 1 for example in found)


@pytest.mark.parametrize("name", TAGGED)
def test_answer_boundaries_match_generation_tags(name, request, tmp_path):
    published, tagged = TAGGED[name]
    chats = list(conversations())
    fast, path = request.getfixturevalue("smollm2" if name == "SmolLM2" else "small")
    template = None if name == "SmolLM2" else published  # SmolLM2's file contains the template
    assert_same(ours(tmp_path, [(path, template, chats)])[0], fast, tagged, chats)


def test_generation_blocks_determine_what_is_learned(small, tmp_path):
    """Tests templates with {% generation %} tags: TRL's training templates that accept string contents, and TAGGED."""
    fast, path = small
    templates = {name: text for name, text in TRL.items() if name.endswith("_training")}
    # Omits this template, because it tags an answer and its end token in separate blocks.
    del templates["diffusion_gemma_training"]
    templates |= {name: tagged for name, (_, tagged) in TAGGED.items()}
    chats = list(conversations((False,)))[::1 if LONG else 6]
    tried = 0
    found = ours(tmp_path, [(path, template, chats) for template in templates.values()])
    for (name, template), examples in zip(templates.items(), found):
        try:
            expected = [theirs(fast, template, chat) for chat in chats]
        except Exception:  # a vision model's template, which requires contents to be lists
            continue
        assert examples == expected, name
        tried += 1
    assert tried >= 12


def test_tool_calls_are_learned(small, tmp_path):
    """Tool calls in assistant messages are learned as in transformers. As in TRL's data sets, the calls have no ids."""
    fast, path = small
    tools = [{"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {
        "type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "integer"}}, "required": ["b"]}}}]
    call = {"type": "function", "function": {"name": "add", "arguments": {"b": 2, "a": [1.5, "é", None]}}}
    chats = [[{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": content, "tool_calls": [call] * n},
              {"role": "tool", "name": "add", "content": "4"}, {"role": "assistant", "content": "It is 4."}]
             for content in ("", "I add.") for n in (1, 2)]
    for name in ("qwen2_5_training", "qwen3_instruct_2507_training", "qwen3_training"):
        found = ours(tmp_path, [(path, TRL[name], chats)], tools)[0]
        assert found == [theirs(fast, TRL[name], chat, tools) for chat in chats], name


def test_tokens_across_an_answers_start_are_learned(small, tmp_path):
    """A token that is only partly in an answer is learned, as in transformers. Contents must end in ASCII, because
    transformers marks only the first token of a character that has several."""
    fast, path = small
    chats = [chat for chat in conversations() if all(message["content"][-1:].isascii() and message["content"] for message in chat)]
    assert_same(ours(tmp_path, [(path, PLAIN, chats)])[0], fast, PLAIN, chats)
    tokens = fast.convert_ids_to_tokens(theirs(fast, PLAIN, chats[0])["tokens"])
    assert any(token.startswith("\u0120H") for token in tokens) and any(token.startswith(".\u010a") for token in tokens)


@pytest.mark.parametrize("name", TRL_PAIRS)
def test_answers_match_trl_except_the_line_end(name, small, tmp_path):
    """TRL also trains on the line break after an answer. Folio doesn't, since generation ends before the line break."""
    fast, path = small
    chats = list(conversations((False,)))
    for example, chat in zip(ours(tmp_path, [(path, TRL[name], chats)])[0], chats):
        expected = theirs(fast, TRL[name + "_training"], chat)
        n = len(example["tokens"])
        assert example["tokens"] == expected["tokens"][:n], chat
        for i, (own, other) in enumerate(zip(example["learned"], expected["learned"])):
            line_end = fast.decode(expected["tokens"][i]).strip("\n") == "" and example["learned"][i - 1] == 1
            assert own == other or (line_end and not own), chat
