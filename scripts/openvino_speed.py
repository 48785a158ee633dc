#!/usr/bin/env python3
"""Measures OpenVINO GenAI (`pip install openvino-genai`) on a Llama's GGUF, like build/bench.

Usage: python3 scripts/openvino_speed.py -m MODEL.gguf [-t N] [--prompt-tokens N] [--gen-tokens N] [--repetitions N]
       [--precision f32]

Prints one JSON object: tokens/s of prefill and decode, medians over the repetitions. Prefill is the number of prompt
tokens divided by the time to first token. Each repetition has another prompt, since the pipeline caches prompts.
--precision is INFERENCE_PRECISION_HINT: processors with BF16 instructions compute in BF16 by default."""
import sys

import numpy as np
import openvino as ov
import openvino_genai as genai

from compare import print_speeds, speed_parser


def main():
    parser = speed_parser(__doc__)
    parser.add_argument("--precision", choices=["f32", "f16", "bf16"])
    a = parser.parse_args()
    settings = {"INFERENCE_NUM_THREADS": a.threads} if a.threads else {}
    if a.precision:
        settings["INFERENCE_PRECISION_HINT"] = a.precision
    try:
        pipeline = genai.LLMPipeline(a.model, "CPU", **settings)
    except RuntimeError as error:
        sys.exit(f"OpenVINO refuses {a.model}: {str(error).strip().splitlines()[-1]}")
    vocab = len(pipeline.get_tokenizer().get_vocab())

    def measure(n_prompt, n_gen, repetition):
        tokens = (np.arange(n_prompt, dtype=np.int64)[None] * 7919 + repetition * 104729 + 13) % vocab
        options = genai.GenerationConfig(max_new_tokens=n_gen, ignore_eos=True, do_sample=False)
        measured = pipeline.generate(genai.TokenizedInputs(ov.Tensor(tokens), ov.Tensor(np.ones_like(tokens))),
                                     options).perf_metrics
        return 1000 * n_prompt / measured.get_ttft().mean, 1000 / measured.get_tpot().mean

    print_speeds(measure, a)


if __name__ == "__main__":
    main()
