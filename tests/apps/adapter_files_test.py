"""Files of adapters, against the programs that they are for: peft opens what is written here."""

import json
import subprocess
import warnings

import peft
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

import support
from adapters import ALL
from peft_models import adapted, token_logprobs
from support import GOLDEN, succeed

torch.set_num_threads(1)
TOOL = support.BUILD / "tests" / "format_tool"


def copied(base, directory, out):
    """The adapter, read and written by the code that the trainer writes with."""
    subprocess.run([TOOL, "copy-adapter", base, directory, out], check=True)
    return out


@pytest.mark.parametrize("config", [
    dict(r=4, lora_alpha=8, lora_dropout=0.25, target_modules=ALL),
    dict(r=3, lora_alpha=1.5, use_rslora=True, target_modules=["q_proj", "k_proj"]),
    dict(r=1, lora_alpha=1, target_modules=["v_proj", "down_proj"], layers_to_transform=[1]),
])
def test_peft_opens_what_is_written(tmp_path, config):
    """The tensors of its own file, bit for bit, and nothing missing or left over; the model says the same."""
    model = adapted(GOLDEN, size=0.5, **config)
    ids = list(range(1, 40))
    expected = token_logprobs(model, ids)
    model.save_pretrained(tmp_path / "theirs")
    ours = copied(GOLDEN, tmp_path / "theirs", tmp_path / "ours")
    theirs, written = (load_file(d / "adapter_model.safetensors") for d in (tmp_path / "theirs", ours))
    assert theirs.keys() == written.keys() and all(torch.equal(theirs[n], written[n]) for n in theirs)

    base = AutoModelForCausalLM.from_pretrained(GOLDEN, dtype=torch.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # which names missing and unexpected tensors
        loaded = peft.PeftModel.from_pretrained(base, ours).eval()
    assert (token_logprobs(loaded, ids) == expected).all()
    said = loaded.peft_config["default"]
    assert (said.r, said.lora_alpha, said.lora_dropout) == (config["r"], config["lora_alpha"], config.get("lora_dropout", 0))
    assert json.loads((ours / "adapter_config.json").read_text())["base_model_name_or_path"] == str(GOLDEN)
