"""Compares dequantized values and quantized blocks with the gguf package, bit by bit, for each block type.

The environment variable FOLIO_FORMAT_TOOL has the path of format_tool (formats/format_tool.cpp).
"""

import os
import subprocess

import numpy as np
import pytest
from gguf import GGML_QUANT_SIZES
from gguf import GGMLQuantizationType as Q
from gguf import quants

TOOL = os.environ["FOLIO_FORMAT_TOOL"]
READ = [Q.Q8_0, Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q4_K, Q.Q5_K, Q.Q6_K, Q.MXFP4]
WRITTEN = [Q.Q8_0, Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1]  # types that the gguf package can quantize to


def ours(verb, qtype, array, folder, dtype):
    array.tofile(folder / "in")
    done = subprocess.run([TOOL, verb, str(int(qtype)), folder / "in", folder / "out"], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 0, done.stderr
    return np.fromfile(folder / "out", dtype)


@pytest.mark.parametrize("qtype", READ, ids=lambda q: q.name)
def test_random_blocks_dequantize_like_gguf(tmp_path, qtype):
    """Random bytes are valid blocks. Their scales, minimums and quants can have any bits, including infinities and
    NaNs."""
    blocks = np.random.default_rng(int(qtype)).integers(0, 256, (5000, GGML_QUANT_SIZES[qtype][1]), dtype=np.uint8)
    with np.errstate(invalid="ignore", over="ignore"):
        expected = quants.dequantize(blocks, qtype).ravel()
    got = ours("dequantize", qtype, blocks, tmp_path, np.float32)
    assert got.size == expected.size == 5000 * GGML_QUANT_SIZES[qtype][0]
    same = (got.view(np.uint32) == expected.view(np.uint32)) | (np.isnan(got) & np.isnan(expected))
    assert same.all(), np.flatnonzero(~same)[:5]


def rows():
    """Returns rows of many magnitudes and cases that are hard to round: ties, equal values, extremes, tiny values."""
    random = np.random.default_rng(3)
    x = (random.standard_normal((6000, 32)) * np.exp(3 * random.standard_normal((6000, 1)))).astype(np.float32)
    x[:50] = 0
    x[50:100] = -0.0
    x[100:150] = x[100:150, :1]
    x[150:250] = np.round(x[150:250])
    x[250:500] = np.round(x[250:500] * 4) / 8
    x[500:600, 5] = -np.abs(x[500:600]).max(axis=1)
    x[600:700] = np.abs(x[600:700])
    x[700:800] = -np.abs(x[700:800])
    x[800:900, ::2] = 0
    x[900:1000, 7], x[900:1000, 20] = 127, -127  # Q8_0's scale is exactly 1, so values like 2.5 are ties
    x[900:1000] = np.where(np.arange(32) % 13 == 7, x[900:1000], np.round(x[900:1000].clip(-60, 60) * 2) / 2)
    tiny = np.float32(2.0) ** random.integers(-149, -100, (500, 1)).astype(np.float32)
    x[1000:1500] = (random.standard_normal((500, 32)).astype(np.float32) * tiny).astype(np.float32)
    x[1500:2000] *= np.float32(1e-6)  # scales that are subnormal in half precision
    x[2000:2100] = (random.standard_normal((100, 32)) * 60000).astype(np.float32)
    return x.clip(-65000, 65000)  # Q4_1 stores a group's minimum in half precision


@pytest.mark.parametrize("qtype", WRITTEN, ids=lambda q: q.name)
def test_values_quantize_like_gguf(tmp_path, qtype):
    x = rows()
    if qtype in (Q.Q5_0, Q.Q5_1):
        x += 0  # turns -0 into 0: with zeros of both signs, gguf and llama.cpp differ, and Folio follows llama.cpp
    with np.errstate(all="ignore"):
        expected = quants.quantize(x, qtype)
    got = ours("quantize", qtype, x, tmp_path, np.uint8).reshape(expected.shape)
    wrong = np.flatnonzero((got != expected).any(axis=1))
    assert wrong.size == 0, (wrong[:10], x[wrong[:1]], got[wrong[:1]], expected[wrong[:1]])


def test_signed_zeros_quantize_like_gguf(tmp_path):
    """Compares scales and minimums as numbers, because the sign of a minimum of 0 depends on NumPy's vector code."""
    random = np.random.default_rng(4)
    x = np.where(random.integers(0, 2, (500, 32)) == 1, np.float32(0), np.float32(-0.0))
    x[250:] = np.where(random.random((250, 32)) < 0.5, x[250:], random.random((250, 32), dtype=np.float32))
    expected = quants.quantize(x, Q.Q4_1)
    got = ours("quantize", Q.Q4_1, x, tmp_path, np.uint8).reshape(expected.shape)
    for at in (0, 2):  # byte offsets of scale and minimum in a Q4_1 block
        assert (got[:, at:at + 2].copy().view(np.float16) == expected[:, at:at + 2].copy().view(np.float16)).all()
    assert (got[:, 4:] == expected[:, 4:]).all()


