"""Tests training on conversations with SmolLM2's chat template: losses equal transformers', resumed runs, exports."""

import gzip
import json
import random

import gguf
import numpy
import pytest
import torch
import transformers

from published import publish
from support import (BUILD, FAILED, TEXT, WRONG_USAGE, assert_refused, environment, interrupt, log_of, one_json, run,
                     succeed)

END, START, TURN = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
LINE = "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
TEMPLATE = ("{% for message in messages %}" + LINE + "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
            "{% endif %}")
TAGGED = TEMPLATE.replace(LINE, "{% if message['role'] == 'assistant' %}{{ '<|im_start|>assistant\n' }}{% generation %}"
                          "{{ message['content'] + '<|im_end|>' }}{% endgeneration %}{{ '\n' }}{% else %}" + LINE +
                          "{% endif %}")
FLAGS = ["--window", "48", "--batch-size", "2", "--lr", "1e-3", "--warmup-steps", "0", "--threads", "1", "--log-every",
         "1", "--checkpoint-every", "1000", "--sample", "4"]
ONE_ROW = [*FLAGS[:2], "--batch-size", "1", *FLAGS[4:]]


def conversations(n, seed):
    rng = random.Random(seed)
    words = TEXT.split()
    for _ in range(n):
        messages = [{"role": "system", "content": "sat"}] if rng.random() < 0.5 else []
        for _ in range(rng.randrange(1, 3)):
            messages += [{"role": role, "content": " ".join(rng.choices(words, k=rng.randrange(1, 4)))}
                         for role in ("user", "assistant")]
        yield messages


def write(path, chats):
    text = "".join(json.dumps({"messages": chat}) + "\n" for chat in chats)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chats")
    write(folder / "train.jsonl", conversations(30, 1))
    write(folder / "eval.jsonl.gz", conversations(9, 2))
    return folder


@pytest.fixture(scope="module")
def published(home):
    """Returns a Hugging Face directory with a random model, its tokenizer, and a chat template."""
    return publish(home / "published", [TEXT[:400]], [END, START, TURN], bos_token=START, eos_token=TURN,
                   chat_template=TEMPLATE)


def train(home, *flags, data="train.jsonl"):
    return succeed("train", home / data, *flags, home=home, errors="replace")


def tagged(tokenizer, chat):
    """Returns the tokens of a conversation, and for each whether it is one of the assistant."""
    encoded = tokenizer.apply_chat_template(chat, chat_template=TAGGED, return_dict=True, return_assistant_tokens_mask=True)
    return encoded["input_ids"], encoded["assistant_masks"]


def loss_by_transformers(directory, chats, window):
    """Returns the mean loss over the assistant's tokens, with one forward pass per conversation."""
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    losses = []
    for chat in chats:
        tokens, mask = (torch.tensor(values[:window + 1]) for values in tagged(tokenizer, chat))
        with torch.no_grad():
            logits = model(tokens[None, :-1]).logits[0]
        losses.append(torch.nn.functional.cross_entropy(logits, tokens[1:], reduction="none")[mask[1:] == 1])
    return torch.cat(losses).mean().item()


@pytest.fixture(scope="module")
def trained(home, published):
    return train(home, "--eval", home / "eval.jsonl.gz", "--init", published, "--out", home / "r", "--steps", "6", *FLAGS)


def test_validation_loss_matches_transformers(home, trained):
    """The losses are equal only if conversations in one window don't attend to each other, and only answers count."""
    # Adding fewer than 64 float32 terms in another order changes a loss below 10 by at most 64 * 2^-24 * 10 = 4e-5.
    assert log_of(home / "r")[-1]["val_loss"] == pytest.approx(
        loss_by_transformers(home / "r/checkpoints/last", conversations(9, 2), 48), abs=1e-4)
    assert "validation: 9 conversations, " in trained.stdout and "training: 30 conversations, " in trained.stdout
    before = loss_by_transformers(home / "published", conversations(9, 2), 48)
    assert f"validation loss of the answers before training: {before:.3f}" in trained.stdout


def test_epoch_contains_each_conversation_once(home, published):
    done = train(home, "--eval", home / "eval.jsonl.gz", "--init", published, "--out", home / "dumped", "--epochs", "1",
                 "--dump-batches", home / "batches.npy", *ONE_ROW)
    batches = numpy.load(home / "batches.npy")
    windows = int(done.stdout.split(" windows, ")[0].split()[-1])
    assert batches.shape == (windows, 1, 3, 48)
    found = []
    for inputs, targets, starts in batches.reshape(-1, 3, 48):
        for start in sorted(set(starts)):
            own = starts == start
            assert (numpy.flatnonzero(own) == start + numpy.arange(own.sum())).all()  # tokens are contiguous
            if (targets[own] != -100).any():
                found.append((inputs[own].tolist(), targets[own].tolist()))
    tokenizer = transformers.AutoTokenizer.from_pretrained(published)
    expected = []
    for chat in conversations(30, 1):
        tokens, mask = (values[:-1] for values in tagged(tokenizer, chat))  # without the last line break
        expected.append((tokens[:-1], [token if learned else -100 for token, learned in zip(tokens[1:], mask[1:])]))
    assert sorted(found) == sorted((tokens[:48], targets[:48]) for tokens, targets in expected)


def test_end_tokens_of_the_generation_config_are_learned(home):
    """Only generation_config.json specifies that generation stops where the next turn begins, as for GLM-4."""
    model = publish(home / "next", [TEXT[:400]], [END, START], bos_token=END, eos_token=END,
                    chat_template=TEMPLATE.replace(TURN, ""))
    start = transformers.AutoTokenizer.from_pretrained(model).convert_tokens_to_ids(START)
    transformers.GenerationConfig(eos_token_id=[0, start]).save_pretrained(model)
    done = train(home, "--init", model, "--out", home / "next-run", "--steps", "1", "--dump-batches", home / "next.npy", *FLAGS)
    assert "learn to stop" not in done.stderr and (numpy.load(home / "next.npy")[:, :, 1] == start).any()


def test_sample_answers_the_first_validation_question(home, trained):
    first = next(conversations(9, 2))
    asked = "".join(f"{m['role']}: {m['content']}\n" for m in first[:[m["role"] for m in first].index("assistant")])
    assert log_of(home / "r")[-1]["sample"].startswith(asked + "assistant: ")
    assert f"\nsample:\n{asked}assistant: " in trained.stdout


def test_chat_template_is_saved_with_the_model(home, published, trained):
    saved = transformers.AutoTokenizer.from_pretrained(home / "r/checkpoints/last")
    chat = next(conversations(1, 3))
    assert saved.apply_chat_template(chat, tokenize=False) == transformers.AutoTokenizer.from_pretrained(
        published).apply_chat_template(chat, tokenize=False)
    field = gguf.GGUFReader(home / "r/model.gguf").fields["tokenizer.chat_template"]
    assert field.contents() == TEMPLATE
    done = one_json(succeed("chat", "-m", home / "r/model.gguf", "-p", "The cat", "--temp", "0", "-n", "3", "--json",
                            home=home).stdout)
    assert done["prompt_tokens"] == saved.apply_chat_template([{"role": "user", "content": "The cat"}],
                                                              add_generation_prompt=True, return_dict=True)["input_ids"]


def test_named_template_is_saved_with_the_model(home, published):
    done = train(home, "--init", published, "--out", home / "zephyr", "--steps", "1", "--chat-template", "zephyr",
                 "--validation-fraction", "1e-8", *FLAGS)
    assert "validation: 1 conversations, " in done.stdout  # at least one
    field = gguf.GGUFReader(home / "zephyr/model.gguf").fields["tokenizer.chat_template"]
    assert "<|assistant|>" in field.contents()
    train(home, "--init", published, "--lora-rank", "2", "--out", home / "adapter", "--steps", "1", "--chat-template",
          "zephyr", *FLAGS)
    (home / "adapter/summary.txt").unlink()  # as if killed at its end
    assert "resumed at step 1" in train(home, "--out", home / "adapter", "--resume").stdout


def test_test_split_is_not_trained_on(home, published):
    done = train(home, "--init", published, "--eval", home / "eval.jsonl.gz", "--test-fraction", "0.5", "--out",
                 home / "half", "--steps", "1", *FLAGS)
    assert "training: 15 conversations, " in done.stdout and "validation: 9 conversations, " in done.stdout


def test_resumed_run_is_bit_exact(home, published):
    flags = [*FLAGS, "--init", published, "--epochs", "12", "--eval", home / "eval.jsonl.gz"]  # --resume reuses them
    done = train(home, "--out", home / "whole", *flags)
    windows = int(done.stdout.split(" windows, ")[0].split()[-1])
    assert log_of(home / "whole")[-1]["step"] == 6 * windows  # 12 epochs, with two windows per step
    interrupt([BUILD / "train", home / "train.jsonl", "--out", home / "cut", *flags], "step 20/", env=environment(home))
    assert 20 <= log_of(home / "cut")[-1]["step"] < 6 * windows
    train(home, "--out", home / "cut", "--resume")
    for name in ("checkpoints/last/model.safetensors", "checkpoints/last/tokenizer.json", "model.gguf"):
        assert (home / "cut" / name).read_bytes() == (home / "whole" / name).read_bytes(), name
    assert [entry["loss"] for entry in log_of(home / "cut")] == [entry["loss"] for entry in log_of(home / "whole")]


def test_incompatible_options_are_rejected(home, published):
    def refuse(code, data, *flags, parts):
        done = run("train", home / data, "--out", home / "no", *FLAGS, "--steps", "1", *flags, home=home)
        assert_refused(done, code, *parts)
        assert not (home / "no").exists()

    refuse(WRONG_USAGE, "train.jsonl", parts=["train.jsonl has conversations, which need a tokenizer", "--init"])
    write(home / "one.jsonl", conversations(1, 1))
    refuse(FAILED, "one.jsonl", "--init", published, parts=["1 conversations leave none for training", "--eval"])
    (home / "bad.jsonl").write_text((home / "one.jsonl").read_text() + '{"text": "once"}\n')
    refuse(FAILED, "bad.jsonl", "--init", published, parts=["bad.jsonl: line 2: not an object with \"messages\""])
    (home / "text.txt").write_text(TEXT)
    refuse(WRONG_USAGE, "text.txt", "--chat-template", "chatml", parts=["--chat-template requires conversations"])
    refuse(WRONG_USAGE, "text.txt", "--eval", home / "text.txt", "--validation-fraction", "0.1",
           parts=["--validation-fraction has no effect with --eval"])
    write(home / "long.jsonl", [[{"role": "user", "content": TEXT[:300]}, {"role": "assistant", "content": "a"}]] * 3)
    refuse(FAILED, "long.jsonl", "--init", published, parts=["no answer begins within the first 48 tokens"])
    (home / "strict.jinja").write_text("{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}" +
                                       TEMPLATE)
    user, answer = ([{"role": role, "content": "a"}] for role in ("user", "assistant"))
    write(home / "short.jsonl", [user + answer] * 3)
    write(home / "system.jsonl", [[{"role": "system", "content": "a"}] + user + answer])
    refuse(FAILED, "short.jsonl", "--init", published, "--chat-template", home / "strict.jinja", "--eval",
           home / "system.jsonl", parts=["system.jsonl: line 1", "no system"])


def test_validation_on_another_text(home):
    (home / "a.txt").write_text(TEXT)
    (home / "b.txt").write_text(TEXT[:200])
    small = ["--dim", "16", "--layers", "1", "--heads", "2", "--hidden-dim", "16", "--context", "32", "--window", "16",
             "--batch-size", "4", "--steps", "1", "--threads", "1"]
    done = succeed("train", home / "a.txt", "--eval", home / "b.txt", "--out", home / "text", *small, home=home)
    assert f"a: {len(TEXT)} training, 200 validation tokens" in done.stdout
    done = run("verify", home / "text/checkpoints/last", home / "text/model.gguf", home=home)
    assert done.returncode == FAILED and "was validated on a separate text; give a text with --text FILE" in done.stderr
    # A run with another model's characters resumes, although its text lacks some of them.
    (home / "c.txt").write_text(TEXT + "äöü")
    succeed("train", home / "c.txt", "--out", home / "base", *small, home=home)
    command = ["train", home / "a.txt", "--out", home / "tuned"]
    succeed(*command, "--init", home / "base/model.gguf", "--eval", home / "b.txt", *small, home=home)
    (home / "tuned/model.gguf").unlink()  # as if killed before the export
    assert "resumed at step 1" in succeed(*command, "--resume", home=home).stdout
