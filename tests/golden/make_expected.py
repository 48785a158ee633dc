#!/usr/bin/env python3
"""Writes expected.json: transformers' results for a golden checkpoint, which the engine's tests compare with.

Usage: make_expected.py DIRECTORY      (tests/golden/shakespeare_48)

The directory is the `checkpoints/best` of

    ./train tinyshakespeare --dim 48 --layers 2 --heads 4 --kv-heads 2 --hidden-dim 96 --context 256 --window 256 \\
            --batch-size 8 --steps 2500 --lr 3e-3 --tie-embeddings false --norm-eps 1e-6 --rope-theta 5000

without the optimizer's state. Grouped queries, an untied head and unusual values of norm_eps and rope_theta
make tests fail if a value is hard-coded. The greedy outputs never contain <|endoftext|>.
A greedy output is reproducible only if the smallest gap between its best two logits is far above the rounding
differences of float32 sums in another order (about 1e-5); otherwise this script fails.
"""

import json
import re
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

NEW_TOKENS = 200
PROMPTS = ["ROMEO:\nBut", "\n"]
LOGITS_TEXT = "First Citizen:\nBefore we proceed"  # 32 characters, each a token
LAST_POSITIONS = 4
SMALLEST_GAP = 2e-3


def top_two_gap(logits):
    best, second = logits.topk(2).values
    return (best - second).item()


def main():
    directory = Path(sys.argv[1])
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    never = tokenizer.eos_token_id

    greedy = []
    for prompt in PROMPTS:
        ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
        out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW_TOKENS, do_sample=False,
                             suppress_tokens=[never], pad_token_id=never, output_scores=True,
                             return_dict_in_generate=True)
        tokens = out.sequences[0, ids.shape[1]:].tolist()
        gap = min(top_two_gap(scores[0]) for scores in out.scores)
        if len(tokens) != NEW_TOKENS or gap < SMALLEST_GAP:
            sys.exit(f"{prompt!r}: {len(tokens)} tokens, smallest gap {gap:.2e} < {SMALLEST_GAP}; take another prompt")
        greedy.append({"prompt": prompt, "prompt_tokens": ids[0].tolist(), "tokens": tokens,
                       "text": tokenizer.decode(tokens), "smallest_top_two_gap": gap})

    ids = tokenizer(LOGITS_TEXT, return_tensors="pt")["input_ids"]
    assert ids.shape[1] == 32, ids.shape
    with torch.no_grad():
        logits = model(ids).logits[0, -LAST_POSITIONS:]
    expected = {
        "greedy": greedy,
        "logits": {"text": LOGITS_TEXT, "tokens": ids[0].tolist(),
                   "positions": list(range(32 - LAST_POSITIONS, 32)), "values": logits.tolist()},
    }
    # Floats are written with enough digits to restore all float32 bits. Each list of numbers is written as one line.
    text = json.dumps(expected, indent=1, ensure_ascii=False)
    text = re.sub(r"\[[^\[\]{}]*\]", lambda numbers: json.dumps(json.loads(numbers[0])), text)
    (directory / "expected.json").write_text(text + "\n", encoding="utf-8")
    for entry in greedy:
        print(f"{entry['prompt']!r}: smallest gap {entry['smallest_top_two_gap']:.4f}\n{entry['text']}\n")


if __name__ == "__main__":
    main()
