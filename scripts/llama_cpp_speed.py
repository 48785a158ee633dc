#!/usr/bin/env python3
"""Measures llama.cpp like build/bench, through llama-cpp-python, which `make interop` builds.

Usage: build/venv/bin/python scripts/llama_cpp_speed.py -m MODEL.gguf [-t N] [--prompt-tokens N] [--gen-tokens N]
       [--batch N] [--repetitions N] [--plain]

Prints one JSON object: tokens/s of prefill and decode, medians over the repetitions. All settings are llama.cpp's
defaults, including one thread per physical core. Some virtual machines report AMX but reject
its instructions, so that llama.cpp crashes. There, use --plain, which disables repacked kernels (and is slower), or
build llama.cpp with CMAKE_ARGS=-DGGML_NATIVE=OFF and the machine's other instruction sets."""
import ctypes
import os
import pathlib
import sys
import time

import llama_cpp as lc

from compare import print_speeds, speed_parser


def physical_cores():
    """Returns the number of physical cores (cpu_get_num_physical_cores in llama.cpp's common)."""
    files = pathlib.Path("/sys/devices/system/cpu").glob("cpu[0-9]*/topology/thread_siblings")
    return len({file.read_text() for file in files}) or os.cpu_count()


class Engine:
    def __init__(self, a):
        self.log = lc.llama_log_callback(lambda level, text, user: None)
        lc.llama_log_set(self.log, ctypes.c_void_p(0))
        lc.llama_backend_init()
        params = lc.llama_model_default_params()
        params.use_extra_bufts = not a.plain
        self.model = lc.llama_model_load_from_file(os.fsencode(a.model), params)
        if not self.model:
            sys.exit(f"llama.cpp refuses {a.model}")
        self.vocab = lc.llama_vocab_n_tokens(lc.llama_model_get_vocab(self.model))
        params = lc.llama_context_default_params()
        params.n_seq_max, params.n_ctx = a.batch, a.batch * (a.prompt_tokens + a.gen_tokens)
        params.n_batch = max(params.n_batch, a.batch * a.prompt_tokens)
        params.n_threads = params.n_threads_batch = a.threads or physical_cores()
        self.context = lc.llama_init_from_model(self.model, params)
        if not self.context:
            sys.exit(f"llama.cpp has no context of {params.n_ctx} positions for {a.model}")
        self.batch = lc.llama_batch_init(a.batch * a.prompt_tokens, 0, 1)

    def clear(self):
        lc.llama_memory_clear(lc.llama_get_memory(self.context), True)

    def seconds(self, n_sequences, first, n):
        """Returns the seconds of one llama_decode() of n positions per sequence, starting at position `first`, with
        logits for the last position of each sequence."""
        self.batch.n_tokens = n_sequences * n
        for i in range(n_sequences * n):
            sequence, position = i // n, first + i % n
            self.batch.token[i] = (sequence * 104729 + position * 7919 + 13) % self.vocab
            self.batch.pos[i], self.batch.n_seq_id[i], self.batch.seq_id[i][0] = position, 1, sequence
            self.batch.logits[i] = i % n == n - 1
        start = time.perf_counter()
        if lc.llama_decode(self.context, self.batch) != 0:
            sys.exit("llama.cpp failed in llama_decode")
        lc.llama_synchronize(self.context)
        return time.perf_counter() - start


def main():
    parser = speed_parser(__doc__, batch=1)
    parser.add_argument("--plain", action="store_true")
    a = parser.parse_args()
    engine = Engine(a)

    def measure(n_prompt, n_gen, _):
        engine.clear()
        return (a.batch * n_prompt / engine.seconds(a.batch, 0, n_prompt),
                a.batch * n_gen / sum(engine.seconds(a.batch, n_prompt + i, 1) for i in range(n_gen)))

    print_speeds(measure, a)


if __name__ == "__main__":
    main()
