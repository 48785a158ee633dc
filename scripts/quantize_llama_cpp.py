#!/usr/bin/env python3
"""Quantizes a GGUF file to each of the given types with llama.cpp's quantizer.

Usage: build/venv/bin/python scripts/quantize_llama_cpp.py MODEL.gguf --types q4_0,q4_k_m,q6_k [--out DIR]
       [--name NAME] [--threads N]

Writes DIR/NAME.TYPE.gguf (by default in the model's folder and with its name). llama.cpp uses other types for some
tensors: Q6_K or Q8_0 for the output, and types with smaller blocks if rows are not a multiple of 256."""
import argparse
import ctypes
import os
import pathlib
import sys

import llama_cpp as lc

PREFIX = "LLAMA_FTYPE_MOSTLY_"
TYPES = {name[len(PREFIX):].lower(): getattr(lc, name) for name in dir(lc) if name.startswith(PREFIX)}


def type_names(text):
    """Returns the list of types in a comma-separated string. Rejects types that llama.cpp doesn't have."""
    names = text.lower().split(",")
    unknown = [name for name in names if name not in TYPES]
    if unknown:
        raise argparse.ArgumentTypeError(f"no type {unknown[0]!r}; llama.cpp has {', '.join(sorted(TYPES))}")
    return names


def quantize(model, types, folder, name, threads):
    """Writes folder/NAME.TYPE.gguf for each type. Incomplete files have a temporary name."""
    quiet = lc.llama_log_callback(lambda level, text, user: None)
    lc.llama_log_set(quiet, ctypes.c_void_p(0))
    lc.llama_backend_init()
    folder.mkdir(parents=True, exist_ok=True)
    for type_name in types:
        path = folder / f"{name}.{type_name.upper()}.gguf"
        partial = path.with_suffix(".partial")
        params = lc.llama_model_quantize_default_params()
        params.ftype, params.nthread, params.allow_requantize = TYPES[type_name], threads, True
        if lc.llama_model_quantize(os.fsencode(model), os.fsencode(partial), params) != 0:
            partial.unlink(missing_ok=True)
            sys.exit(f"llama.cpp can't quantize {model} to {type_name}")
        partial.replace(path)
        print(path, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--types", type=type_names, required=True)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--name")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    a = parser.parse_args()
    if not a.model.is_file():
        sys.exit(f"{a.model} is not there")
    quantize(a.model, a.types, a.out or a.model.parent, a.name or a.model.stem, a.threads)


if __name__ == "__main__":
    main()
