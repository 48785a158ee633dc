#!/usr/bin/env python3
"""Measures transformers on a Hugging Face directory, like build/bench: greedy decoding, or beam search.

Usage: scripts/transformers_speed.py -m DIRECTORY [-t N] [--prompt-tokens N] [--gen-tokens N] [--beams N]
       [--repetitions N] [--device cpu] [--static]

Weights are F32 on a CPU and F16 on a GPU. The tokens of all beams count. Decode excludes the time of the first token.
--static compiles the steps and uses a cache of fixed size. Prints one JSON object: tokens/s of prefill and decode,
medians over the repetitions."""
import time

import torch
from transformers import AutoModelForCausalLM, CompileConfig

from compare import print_speeds, speed_parser


def main():
    parser = speed_parser(__doc__, beams=1, device="cpu")
    parser.add_argument("--static", action="store_true")
    a = parser.parse_args()
    if a.threads:
        torch.set_num_threads(a.threads)
    dtype = torch.float32 if a.device == "cpu" else torch.float16
    model = AutoModelForCausalLM.from_pretrained(a.model, dtype=dtype).to(a.device).eval()
    options = dict(do_sample=False, num_beams=a.beams, pad_token_id=0, eos_token_id=None)
    if a.static:
        options |= dict(cache_implementation="static",
                        compile_config=CompileConfig(mode="reduce-overhead", fullgraph=True))

    def seconds(n_prompt, n_gen):
        tokens = (torch.arange(n_prompt, device=a.device)[None] * 7919 + 13) % model.config.vocab_size
        start = time.perf_counter()
        out = model.generate(tokens, attention_mask=torch.ones_like(tokens), min_new_tokens=n_gen, max_new_tokens=n_gen,
                             **options)
        out.tolist()  # waits for the GPU
        return time.perf_counter() - start

    def measure(n_prompt, n_gen, _):
        first = seconds(n_prompt, 1)
        return n_prompt / first, a.beams * (n_gen - 1) / (seconds(n_prompt, n_gen) - first)

    print_speeds(measure, a)


if __name__ == "__main__":
    main()
