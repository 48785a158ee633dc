"""Compares the llama2.c files that export reads and writes, byte by byte, with those of another writer (sound.py)."""

import numpy as np
import pytest

import sound
from support import succeed

SHAPES = {"tied": sound.Shape(layers=2), "untied": sound.Shape(layers=2, tied=False),
          "grouped": sound.Shape(dim=24, hidden=20, layers=3, heads=6, kv_heads=2, tied=False, context=33),
          "plain": sound.Shape(heads=2, kv_heads=2), "wide": sound.Shape(dim=64, hidden=192, heads=4, context=100)}


def assert_same_file(ours, theirs, version, shape):
    """Asserts equal bytes. Version 0's RoPE tables may differ by 1e-6, because math libraries round differently."""
    assert len(ours) == len(theirs)
    if version > 0:
        assert ours == theirs
        return
    tail = 0 if shape.tied else 4 * shape.vocab * shape.dim
    end = len(ours) - tail
    begin = end - 4 * shape.context * shape.head_dim
    assert ours[:begin] == theirs[:begin] and ours[end:] == theirs[end:]
    tables = [np.frombuffer(file[begin:end], dtype=np.float32) for file in (ours, theirs)]
    np.testing.assert_allclose(*tables, atol=1e-6, rtol=0)
    assert np.abs(tables[0]).max() == 1.0


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_export_writes_the_published_format(tmp_path, shape, version):
    theirs = sound.Llama2c(version, shape).pack()
    floats = tmp_path / "floats.bin"  # the file to export; version 0 stores the weights unchanged
    floats.write_bytes(sound.Llama2c(0, shape).pack())
    succeed("export", floats, "--format", "llama2c", "--version", version, "--out", tmp_path / "ours.bin")
    assert_same_file((tmp_path / "ours.bin").read_bytes(), theirs, version, shape)


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_published_format_is_read(tmp_path, shape, version):
    """A GGUF exported from the file must have the bits of its weights, or for version 2 the bits of their dequantized
    values."""
    (tmp_path / "m.bin").write_bytes(sound.Llama2c(version, shape).pack())
    (tmp_path / "t.json").write_bytes(sound.json.dumps(sound.character_json()).encode())
    succeed("export", tmp_path / "m.bin", "--tokenizer", tmp_path / "t.json", "--out", tmp_path / "m.gguf")
    import gguf
    read = {t.name: t.data for t in gguf.GGUFReader(tmp_path / "m.gguf").tensors}
    expected = sound.weights(shape)
    assert read.keys() == expected.keys()
    for name, array in expected.items():
        if version == 2 and array.ndim == 2:
            quants, scale = sound.quantize_q80(array, sound.group_size(shape))
            array = (quants.astype(np.float32) * scale[:, None]).reshape(array.shape)
        assert read[name].tobytes() == array.tobytes(), name
