"""Compares train --lora-rank with peft: equal initial values give equal losses, gradients and adapters. Also uses the
trained adapters with perplexity and generate."""

import json
import shutil

import numpy as np
import peft
import pytest
import torch
import transformers
from safetensors.numpy import load_file, save_file

from published import loss_by_transformers
from ranks import train_on_ranks
from support import (BUILD, FAILED, GOLDEN, WRONG_USAGE, assert_refused, environment, export, generate, interrupt, log_of,
                     perplexity, run, succeed)

torch.set_num_threads(1)
TEXT = "".join(f"{a} {b} loves the {c},\nand so it was.\n\n" for a in ("The old", "My good", "A sly")
               for b in ("king", "queen", "fool", "lord") for c in ("crown", "sea", "night", "sword"))
STEPS, LR = 10, 3e-3
FLAGS = ["--window", "24", "--batch-size", "3", "--schedule", "constant", "--warmup-steps", "0", "--clip",
         "0", "--dtype", "f32", "--threads", "1", "--log-every", "1", "--sample", "8"]
NAMES = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "o_proj", "gate": "gate_proj", "up": "up_proj",
         "down": "down_proj"}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lora")
    (folder / "kings.txt").write_text(TEXT)
    return folder


@pytest.fixture(scope="module")
def blocks(home):
    """Returns a random model as a Q8_0 file, and as a directory with the dequantized values for transformers."""
    torch.manual_seed(1)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=66, hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, initializer_range=0.15, bos_token_id=65, eos_token_id=65))
    model.save_pretrained(home / "random")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(GOLDEN / name, home / "random" / name)
    file = export(home / "random", home / "random.gguf", "--type", "q8_0")
    return file, export(file, home / "random-f32", "--format", "hf", "--type", "f32")


def train(home, base, out, *flags, steps=STEPS):
    return succeed("train", home / "kings.txt", "--init", base, "--lora-rank", "4", "--out", out, "--steps", steps,
                   *FLAGS, *flags, home=home)


def as_peft(base, adapter):
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    return peft.PeftModel.from_pretrained(model, adapter, is_trainable=True)


def test_two_ranks_match_accumulated_half_batches(home, blocks):
    more = ["--lora-targets", "q,v,down"]
    alone, out = home / "halves", home / "two-ranks"
    train(home, blocks[0], alone, "--accumulation", "2", *more)
    twice = ["6" if flag == "3" else flag for flag in FLAGS]  # doubles --batch-size
    train_on_ranks(2, home, home / "kings.txt", "--init", blocks[0], "--lora-rank", "4", "--steps", STEPS, *twice, *more,
                   "--out", out)
    assert [entry["loss"] for entry in log_of(out)] == [entry["loss"] for entry in log_of(alone)]
    mine, theirs = (load_file(d / "checkpoints/last/adapter_model.safetensors") for d in (out, alone))
    assert mine.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert np.array_equal(mine[name], tensor), name


@pytest.mark.parametrize("targets, base_type, fused", [("all", "f32", "true"), ("q,v,down", "f32", "true"),
                                                       ("all", "q8_0", "true"), ("k,o,gate,up", "f32", "false")])
def test_ten_steps_match_peft(home, blocks, targets, base_type, fused):
    folder = home / f"{targets}-{base_type}-{fused}"
    folder.mkdir()
    base, theirs = blocks if base_type == "q8_0" else (GOLDEN, GOLDEN)
    flags = ["--lora-targets", targets, "--lora-alpha", "6", "--fused", fused]
    train(home, base, folder / "first", "--lr", "0", *flags, steps=1)  # a rate of 0 keeps the initial values
    train(home, base, folder / "run", "--lr", LR, "--dump-batches", folder / "batches.npy", "--dump-grads",
          folder / "gradients", *flags)
    first = folder / "first/checkpoints/last"
    model = as_peft(theirs, first)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=LR, betas=(0.9, 0.999),
                                  weight_decay=0.0)
    if targets == "all":  # as in peft: B is 0, A is uniform in ±1/√(number of inputs)
        values = load_file(first / "adapter_model.safetensors")
        for name, value in values.items():
            bound = value.shape[1] ** -0.5
            assert (value == 0).all() if "lora_B" in name else 0.9 * bound < np.abs(value).max() <= bound, name

    names = {NAMES[t] for t in targets.split(",")} if targets != "all" else set(NAMES.values())
    assert set(json.loads((first / "adapter_config.json").read_text())["target_modules"]) == names
    losses = []
    for step, rows in enumerate(np.load(folder / "batches.npy")):
        ids = torch.from_numpy(rows.astype(np.int64))
        loss = torch.nn.functional.cross_entropy(model(ids[:, :-1]).logits.flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            gradients = load_file(folder / "gradients/adapter_model.safetensors")
            found = {name.replace(".default", ""): p.grad.numpy() for name, p in model.named_parameters()
                     if p.requires_grad}
            assert found.keys() == gradients.keys() and len(found) == 2 * model.config.num_hidden_layers * len(names)
            for name, gradient in found.items():
                scale = np.abs(gradient).max()
                assert np.abs(gradients[name] - gradient).max() <= 1e-5 * scale + 1e-9, name
        optimizer.step()
    ours = [entry["loss"] for entry in log_of(folder / "run")]
    assert len(ours) == STEPS and np.abs(np.array(ours) - np.array(losses)).max() <= 1e-5, (ours, losses)
    assert ours[-1] < ours[0] - 0.01
    # 1 % of the values may differ by more than 1e-4, because Adam amplifies rounding errors of gradients near 0.
    trained = load_file(folder / "run/checkpoints/last/adapter_model.safetensors")
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            difference = np.abs(trained[name.replace(".default", "")] - parameter.detach().numpy())
            assert np.quantile(difference, 0.99) <= 1e-4, name


def test_validation_loss_matches_peft_and_the_engine(home):
    out = home / "checked"
    done = train(home, GOLDEN, out, "--lr", LR)
    assert "--lora" in done.stdout and "parameters are trained" in done.stdout
    adapter = out / "checkpoints/best"
    tokenizer = transformers.AutoTokenizer.from_pretrained(adapter)
    ids = tokenizer(TEXT).input_ids
    ids = ids[int(len(ids) * 0.9 + 1e-6):]
    model = as_peft(GOLDEN, adapter).eval()
    # Adding at most 256 float32 terms in another order changes a loss below 4 by less than 1e-4.
    assert log_of(out)[-1]["val_loss"] == pytest.approx(loss_by_transformers(model, ids, 24), abs=1e-4)
    (home / "end.txt").write_text(tokenizer.decode(ids[:25]))
    ours = perplexity(GOLDEN, home / "end.txt", "--lora", adapter)
    assert ours["nll"] == pytest.approx(loss_by_transformers(model, ids[:25], 24), abs=1e-4)


def test_interrupted_run_is_bit_exact(home):
    flags = ["--lr", LR, "--lora-dropout", "0.2", "--checkpoint-every", "1000"]
    train(home, GOLDEN, home / "whole", *flags, steps=60)
    command = [BUILD / "train", home / "kings.txt", "--init", GOLDEN, "--lora-rank", "4", "--out", home / "cut", "--steps",
               60, *FLAGS, *flags]
    interrupt(command, "step 6/", env=environment(home))
    assert json.loads((home / "cut/checkpoints/last/trainer.json").read_text())["step"] < 60
    succeed("train", home / "kings.txt", "--out", home / "cut", "--resume", home=home)
    for name in ("adapter_model.safetensors", "optimizer.safetensors"):
        parts = [(home / run_name / "checkpoints/last" / name).read_bytes() for run_name in ("cut", "whole")]
        assert parts[0] == parts[1], name


def test_run_on_a_padded_vocabulary_resumes(home):
    learned, base = home / "learned/checkpoints/best", home / "padded"
    succeed("train", home / "kings.txt", "--tokenizer", "bpe:280", "--layers", "1", "--dim", "16", "--heads", "2",
            "--hidden-dim", "16", "--context", "32", "--tie-embeddings", "true", "--steps", "1", "--out", home / "learned",
            *FLAGS, home=home, errors="replace")
    shutil.copytree(learned.resolve(), base)
    config = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps({**config, "vocab_size": config["vocab_size"] + 4}))
    weights = load_file(base / "model.safetensors")
    weights["model.embed_tokens.weight"] = np.pad(weights["model.embed_tokens.weight"], ((0, 4), (0, 0)))
    save_file(weights, base / "model.safetensors", metadata={"format": "pt"})
    flags = ["--init", base, "--lora-rank", "4", "--steps", "1", *FLAGS]
    run_dir = home / "on-padded"
    succeed("train", home / "kings.txt", *flags, "--out", run_dir, home=home, errors="replace")
    (run_dir / "summary.txt").unlink()  # as if killed at its end
    done = succeed("train", home / "kings.txt", "--out", run_dir, "--resume", home=home, errors="replace")
    assert "resumed at step 1" in done.stdout


def test_invalid_options_are_rejected_by_name(home):
    def refuse(code, *flags, parts):
        done = run("train", home / "kings.txt", "--out", home / "no", *FLAGS, *flags, home=home)
        assert_refused(done, code, *parts)
        assert not (home / "no").exists()

    refuse(WRONG_USAGE, "--lora-rank", "4", parts=["--lora-rank", "--init"])
    lora = ["--init", GOLDEN, "--lora-rank", "4"]
    refuse(WRONG_USAGE, *lora, "--lora-targets", "q,lm_head", parts=["lm_head", "q, k, v, o, gate, up, down"])
    refuse(WRONG_USAGE, *lora, "--ema", "0.9", parts=["--ema", "--lora-rank"])
    refuse(WRONG_USAGE, *lora, "--dropout", "0.1", parts=["--dropout", "--lora-dropout"])
    refuse(WRONG_USAGE, *lora, "--device", "cuda", parts=["--lora-rank", "--device"])
    refuse(WRONG_USAGE, "--init", GOLDEN, "--lora-alpha", "4", parts=["--lora-alpha", "--lora-rank"])
    refuse(WRONG_USAGE, "--init", GOLDEN, "--lora-rank", "257", parts=["--lora-rank", "256"])


def test_run_resumes_only_with_its_base(home):
    base = export(GOLDEN, home / "moved.gguf", "--type", "f16")
    train(home, base, home / "based", "--lr", LR)
    (home / "based/summary.txt").unlink()  # as if killed at its end
    (home / "moved.gguf").rename(home / "away.gguf")
    export(GOLDEN, home / "moved.gguf", "--type", "f32")
    resume = ["train", home / "kings.txt", "--out", home / "based", "--resume"]
    assert_refused(run(*resume, home=home), FAILED, "a different base model", str(home / "moved.gguf"))
    (home / "moved.gguf").unlink()
    assert_refused(run(*resume, home=home), FAILED, str(home / "moved.gguf"))
    (home / "away.gguf").rename(home / "moved.gguf")
    succeed(*resume, home=home)
    text = generate(base, "--lora", home / "based/checkpoints/last", "-p", "The ", "-n", "5", "--temp", "0", home=home)
    assert len(text["tokens"]) == 5
