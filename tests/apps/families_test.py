"""train --family: the parts of other families are trained, saved, verified and read by transformers."""

import os

import pytest
import torch
import transformers

from exactness import assert_a_killed_run_repeats
from published import loss_by_transformers
from support import FAILED, TEXT, WRONG_USAGE, assert_refused, generate, log_of, run, succeed

FLAGS = ["--dim", "16", "--layers", "2", "--heads", "2", "--hidden-dim", "24", "--context", "32", "--window", "32",
         "--batch-size", "4", "--warmup-steps", "2", "--lr", "1e-2", "--threads", "1", "--steps", "8", "--log-every", "1",
         "--eval-every", "4", "--checkpoint-every", "4"]
FAMILIES = {"mistral": ["--sliding-window", "12"], "qwen2": [], "qwen3": ["--head-dim", "12"],
            "qwen3 window": ["--head-dim", "6", "--sliding-window", "9", "--tie-embeddings", "false"],
            "gemma2 window": ["--sliding-window", "9"], "glm4": []}
if os.environ.get("FOLIO_LONG"):
    FAMILIES |= {"gemma3_text window": ["--sliding-window", "9"], "olmo2": [], "granite": [], "phi3": [], "glm": []}


@pytest.fixture
def home(tmp_path):
    (tmp_path / "cats.txt").write_text(TEXT)
    return tmp_path


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_is_trained(home, name):
    family = name.split()[0]
    done = succeed("train", home / "cats.txt", "--family", family, *FAMILIES[name], "--out", home / "r", *FLAGS, home=home)
    assert f"family {family}" in done.stdout
    best = home / "r/checkpoints/best"
    model, loading = transformers.AutoModelForCausalLM.from_pretrained(best, dtype=torch.float32, output_loading_info=True)
    assert model.config.model_type == family and not loading["missing_keys"] and not loading["mismatched_keys"], loading

    # The loss in the log is the one that transformers finds, in windows of 32.
    # AutoTokenizer takes Qwen2Tokenizer for a qwen2, whatever the files say; `train` says so.
    loader = transformers.PreTrainedTokenizerFast if family == "qwen2" else transformers.AutoTokenizer
    assert ("AutoTokenizer" in done.stderr) == (family == "qwen2")
    log = log_of(home / "r")
    # Float32 sums of fewer than 64 numbers in another order, of a loss below 10: 64 * 2^-24 * 10 is 4e-5.
    loss = loss_by_transformers(model, loader.from_pretrained(best), TEXT)
    assert min(entry["val_loss"] for entry in log if "val_loss" in entry) == pytest.approx(loss, abs=1e-4)
    assert log[-1]["loss"] < log[0]["loss"]

    for file in (home / "r/model.gguf", best):  # a GGUF ends with the window; the directory knows it
        done = succeed("verify", best, file, home=home)
        assert "LibTorch and the engine agree" in done.stdout
        assert generate(file, "-n", "5", "--temp", "0", "The cat", home=home)["text"]


@pytest.mark.parametrize("family", ["qwen2", "qwen3"])
def test_a_killed_run_repeats_the_bits(home, family):
    """Biases, norms and their moments come back from a checkpoint."""
    assert_a_killed_run_repeats(home, ["--family", family, *FLAGS], family)


def test_wrong_families_and_shapes_are_refused(home):
    def refused(*flags):
        return run("train", home / "cats.txt", "--out", home / "r", *FLAGS, *flags, home=home)
    assert_refused(refused("--family", "gemma"), WRONG_USAGE, "--family", "gemma", "qwen3")
    assert_refused(refused("--sliding-window", "8"), WRONG_USAGE, "a sliding window of 8, but the family llama has none")
    assert_refused(refused("--family", "qwen3", "--head-dim", "7"), WRONG_USAGE, "head_dim is 7")
    assert_refused(run("train", home / "cats.txt", "--dim", "16", "--heads", "3", home=home), WRONG_USAGE, "--head-dim")
    assert not (home / "r").exists()
    succeed("train", home / "cats.txt", "--family", "qwen2", "--out", home / "q", *FLAGS, home=home)
    done = run("export", home / "q/model.gguf", "--out", home / "q.bin", "--format", "llama2c", home=home)
    assert_refused(done, FAILED, "llama2.c")
