"""Writes tests/golden/blocks.safetensors: values, and the blocks that llama.cpp makes from them, for tests/core.

    build/venv/bin/python tests/interop/golden_blocks.py      # after make interop: rewrites the file

llama.cpp's quantizer is in the library ggml-base, which is compiled for any x86-64 and rounds each product. If compiled
with fused multiply-adds (-march=native, or for ARM), some blocks of K types would differ.
"""

import ctypes
from pathlib import Path

import llama_cpp
import numpy as np
from gguf import GGML_QUANT_SIZES
from gguf import GGMLQuantizationType as Q
from safetensors.numpy import save_file

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "blocks.safetensors"
# Omits Q4_0 and Q4_1, which Folio quantizes like the gguf package. In that package, a scale of 0 can have a different
# sign than in llama.cpp.
TYPES = [Q.Q8_0, Q.Q5_0, Q.Q5_1, Q.Q4_K, Q.Q5_K, Q.Q6_K]


def rows(n, seed=5):
    """Returns {kind: array [n, 256]}: values that resemble weights, and values that are hard to scale and round."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((n, 256)) * np.exp(2 * random.standard_normal((n, 1)))
    groups = x.reshape(n, 16, 16)
    kinds = {
        "normal": x,
        "like weights": x * 0.02,
        "groups of many sizes": (groups * np.exp(2 * random.standard_normal((n, 16, 1)))).reshape(n, 256),
        "heavy tails": random.standard_t(2, (n, 256)),
        "halves: ties": np.round(random.standard_normal((n, 256)) * 8) / 2,
        "positive": np.abs(x),
        "negative": -np.abs(x),
        "sparse": np.where(random.random((n, 256)) < 0.95, 0, x),
        "zeros of both signs": np.where(random.random((n, 256)) < 0.5, 0.0, -0.0),
        "groups of zeros": np.where(random.random((n, 16, 1)) < 0.6, 0, groups).reshape(n, 256),
        "groups of one number": np.repeat(x[:, ::32], 32, axis=1),
        "narrow and far from zero": -100 + random.integers(0, 3, (n, 256)) * 7.63e-6,
        "subnormal scales": x * 1e-7,
        "tiny": random.standard_normal((n, 256)) * 2.0 ** random.integers(-149, -40, (n, 1)),
        "groups of many tiny sizes": (random.standard_normal((n, 16, 16))
                                      * 2.0 ** random.integers(-60, -20, (n, 16, 1))).reshape(n, 256),
        "large": np.clip(random.standard_normal((n, 256)) * 15000, -65000, 65000),
    }
    return {kind: np.clip(x, -65000, 65000).astype(np.float32) for kind, x in kinds.items()}


def ggml_base():
    library = ctypes.CDLL(str(Path(llama_cpp.__file__).parent / "lib" / "libggml-base.so"))
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    library.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64,
                                            ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
    return library


def quantized(qtype, x):
    """Returns llama.cpp's blocks for rows of 256 values, as an array (rows, bytes)."""
    elements, size = GGML_QUANT_SIZES[qtype]
    x = np.ascontiguousarray(x, np.float32)
    blocks = np.zeros((len(x), 256 // elements * size), np.uint8)
    written = ggml_base().ggml_quantize_chunk(int(qtype), x.ctypes.data, blocks.ctypes.data, 0, *x.shape, None)
    assert written == blocks.nbytes
    return blocks


def golden():
    x = np.concatenate(list(rows(2).values()))
    return {"values": x, **{q.name: quantized(q, x) for q in TYPES}}


if __name__ == "__main__":
    save_file(golden(), GOLDEN)
