"""Helpers for comparing training with transformers: a small Hugging Face model, losses, runs with train --family."""

import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from support import TEXT, generate, log_of, succeed


def publish(folder, texts, special_tokens, **tokenizer_options):
    """Saves a random Llama with grouped queries and a byte-level BPE trained on `texts`, as a Hugging Face directory.
    `tokenizer_options` are those of PreTrainedTokenizerFast, such as bos_token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=290, special_tokens=special_tokens, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts, trainer)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **tokenizer_options)
    torch.manual_seed(1)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=len(fast), hidden_size=24, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, rms_norm_eps=1e-6, tie_word_embeddings=False,
        bos_token_id=fast.bos_token_id, eos_token_id=fast.eos_token_id))
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


def loss_by_transformers(model, ids, window):
    """Returns the mean loss over consecutive windows, which `train` reports as the validation loss."""
    rows = torch.tensor([ids[at:at + window + 1] for at in range(0, len(ids) - window, window)])
    with torch.no_grad():
        logits = model(rows[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten()).item()


FLAGS = ["--dim", "16", "--layers", "2", "--heads", "2", "--hidden-dim", "24", "--context", "32", "--window", "32",
         "--batch-size", "4", "--warmup-steps", "2", "--lr", "1e-2", "--threads", "1", "--steps", "8", "--log-every", "1",
         "--eval-every", "4", "--checkpoint-every", "4"]


def train_family(home, family, *flags):
    """Trains on cats.txt, compares the logged loss with transformers' loss, and checks the engine's logits with verify.
    Returns the finished training process and the model as transformers loaded it."""
    done = succeed("train", home / "cats.txt", *flags, "--out", home / "r", *FLAGS, home=home)
    assert f"family {family}" in done.stdout
    best = home / "r/checkpoints/best"
    model, loading = transformers.AutoModelForCausalLM.from_pretrained(best, dtype=torch.float32, output_loading_info=True)
    loading["unexpected_keys"] = {key for key in loading["unexpected_keys"] if not key.startswith("__pad__")}
    assert model.config.model_type == family and not any(loading.values()), loading
    assert model.config.architectures == [type(model).__name__]

    # For qwen2, AutoTokenizer ignores tokenizer.json's type and uses Qwen2Tokenizer.
    loader = transformers.PreTrainedTokenizerFast if family.startswith("qwen2") else transformers.AutoTokenizer
    ids = loader.from_pretrained(best)(TEXT).input_ids
    log = log_of(home / "r")
    # Adding fewer than 64 float32 terms in another order changes a loss below 10 by at most 64 * 2^-24 * 10 = 4e-5.
    assert min(entry["val_loss"] for entry in log if "val_loss" in entry) == pytest.approx(
        loss_by_transformers(model, ids[int(len(ids) * 0.9 + 1e-6):], 32), abs=1e-4)
    assert log[-1]["loss"] < log[0]["loss"]

    for file in (home / "r/model.gguf", best):  # a GGUF may limit its context to the sliding window
        assert "LibTorch and the engine agree" in succeed("verify", best, file, home=home).stdout
        assert generate(file, "-n", "5", "--temp", "0", "The cat", home=home)["text"]
    return done, model
