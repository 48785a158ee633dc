"""Tests common calls of transformers on directories that `export --format hf` writes.

Models: a character model (from a checkpoint), SmolLM2, which has byte-level BPE and a chat template, and the files of a
SentencePiece vocabulary. Outputs are greedy, in float32, so a padded batch must equal single prompts.
"""

import json

import pytest
import sound
import torch
from support import GOLDEN, SMOLLM2, export, generate
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, pipeline

PROMPTS = {"characters": ["ROMEO:", "O", "KING RICHARD III:\nNow is"],
           "smollm2": ["ROMEO:", "O", "The capital of France is"]}
NEW_TOKENS = 12
GREEDY = {"max_new_tokens": NEW_TOKENS, "do_sample": False}


@pytest.fixture(scope="module", params=["characters", "smollm2"])
def exported(request, tmp_path_factory):
    """Returns a model's name, its exported directory, its tokenizer, and the model in transformers."""
    torch.set_num_threads(1)  # several threads would wait for each other while other tests run
    source = {"characters": GOLDEN, "smollm2": SMOLLM2}[request.param]
    if not source.exists():
        pytest.skip("SmolLM2 is there after `make smollm2`")
    folder = export(source, tmp_path_factory.mktemp(request.param) / "hf", "--format", "hf")
    return (request.param, folder, AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder))


def continued(tokenizer, model, prompt):
    """Returns the prompt and its completion, generated with transformers' usual calls."""
    return tokenizer.decode(model.generate(**tokenizer(prompt, return_tensors="pt"), **GREEDY)[0])


def test_generate_accepts_tokenizer_output(exported):
    name, folder, tokenizer, model = exported
    assert set(tokenizer("ROMEO:", return_tensors="pt")) == {"input_ids", "attention_mask"}
    text = continued(tokenizer, model, "ROMEO:")
    assert text.startswith("ROMEO:") and len(text) > len("ROMEO:")
    if name == "characters":  # tests/interop/smollm2_test.py compares the output of SmolLM2
        ours = generate(folder, "-p", "ROMEO:", "-n", NEW_TOKENS, "--temp", 0, "-t", 1)
        assert text == "ROMEO:" + ours["text"]


def test_a_text_generation_pipeline(exported):
    _, folder, tokenizer, model = exported
    [answer] = pipeline("text-generation", model=str(folder))("ROMEO:", **GREEDY)
    assert answer["generated_text"] == continued(tokenizer, model, "ROMEO:")


def test_padded_batch_matches_single_prompts(exported):
    name, _, tokenizer, model = exported
    prompts = PROMPTS[name]
    batch = tokenizer(prompts, padding=True, return_tensors="pt")
    longest = batch["input_ids"].shape[1]
    # Padding must be on the left, so that each output follows its prompt directly.
    assert [row.tolist() for row in batch["attention_mask"]] == [
        [0] * (longest - n) + [1] * n for n in (len(tokenizer(p)["input_ids"]) for p in prompts)]
    texts = tokenizer.batch_decode(model.generate(**batch, **GREEDY), skip_special_tokens=True)
    assert texts == [continued(tokenizer, model, prompt) for prompt in prompts]


def test_a_chat(exported):
    name, _, tokenizer, model = exported
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    if name == "characters":
        assert tokenizer.chat_template is None
        return
    inputs = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True, return_tensors="pt")
    answer = model.generate(**inputs, **GREEDY)[0, inputs["input_ids"].shape[1]:]
    assert "Paris" in tokenizer.decode(answer, skip_special_tokens=True)


def test_special_tokens_are_in_every_config(exported):
    _, folder, tokenizer, model = exported
    assert tokenizer.eos_token and tokenizer.bos_token and tokenizer.pad_token
    config = AutoConfig.from_pretrained(folder)
    for known in (config, model.generation_config):
        assert (known.bos_token_id, known.eos_token_id) == (tokenizer.bos_token_id, tokenizer.eos_token_id)
    assert len(tokenizer) == config.vocab_size
    assert tokenizer.decode(tokenizer("To be")["input_ids"]) == "To be"


def test_files_saved_by_transformers_are_read(exported, tmp_path):
    name, folder, tokenizer, model = exported
    tokenizer.save_pretrained(tmp_path)
    if name == "characters":  # one model is enough for testing weights
        model.save_pretrained(tmp_path)
    else:
        for file in ("config.json", "model.safetensors"):
            (tmp_path / file).symlink_to(folder / file)
    again = AutoTokenizer.from_pretrained(tmp_path)
    for text in PROMPTS[name]:
        assert again(text) == tokenizer(text)
    asked = ["-p", "ROMEO:", "-n", 4, "--temp", 0, "-t", 1]
    assert generate(tmp_path, *asked)["tokens"] == generate(folder, *asked)["tokens"]


def test_a_sentencepiece_vocabulary(tmp_path):
    """tokenizer_config.json must set model_input_names: transformers before 5.0 would also return token_type_ids."""
    model = sound.Gguf(sound.Shape(vocab=len(sound.PIECES)), tokenizer=sound.sentencepiece_metadata())
    (tmp_path / "model.gguf").write_bytes(model.pack())
    folder = export(tmp_path / "model.gguf", tmp_path / "hf", "--format", "hf")
    config = json.loads((folder / "tokenizer_config.json").read_text())
    assert config["model_input_names"] == ["input_ids", "attention_mask"] and config["padding_side"] == "left"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert continued(tokenizer, AutoModelForCausalLM.from_pretrained(folder), "a b").startswith("<s>")
