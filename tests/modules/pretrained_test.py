"""Tests modules/pretrained.cpp, built alone: for a published model, it gives the same logits and samples as
transformers."""

import subprocess

import numpy as np
import torch
import transformers

from textbook_test import BUILD, ROOT, build_alone, own_name

SMOLLM2 = ROOT / "data" / "smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
PROMPT = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"


def test_pretrained_logits_match_transformers(tmp_path):
    subprocess.run([BUILD / "export", SMOLLM2, "--out", tmp_path / "hf", "--format", "hf", "--type", "f32"], check=True)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "hf", dtype=torch.float32)
    for name, value in theirs.named_parameters():
        if name.endswith(("q_proj.weight", "k_proj.weight")):  # Hugging Face rotates halves, modules/ pairs
            value = value.unflatten(0, (-1, 2, 32)).transpose(1, 2).flatten(0, 2)
        value.detach().numpy().tofile(tmp_path / own_name(name))

    build_alone("pretrained.cpp", tmp_path)
    prompt = tokenizer(PROMPT).input_ids
    command = [tmp_path / "build" / "example", tmp_path, *map(str, prompt)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    sampled = [int(line) for line in lines]
    with torch.no_grad():
        expected = theirs(torch.tensor([prompt + sampled[:-1]])).logits[0]
    ours = torch.from_numpy(np.fromfile(tmp_path / "logits", dtype=np.float32)).view_as(expected)
    apart = (ours - expected).abs().max().item()
    text = tokenizer.decode(sampled)
    print(f"logits apart by {apart:.1e} at most: {text}")
    assert apart < 1e-4
    torch.manual_seed(1337)
    assert sampled == [torch.multinomial((row / 0.7).softmax(-1), 1).item() for row in expected[len(prompt) - 1:]]
    assert "Paris" in text
