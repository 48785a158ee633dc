"""Compares the llama2.c files that export reads and writes, byte by byte, with those of another writer (sound.py)."""

import struct

import numpy as np
import pytest

import sound
from support import succeed

SHAPES = {"tied": sound.Shape(layers=2), "untied": sound.Shape(layers=2, tied=False),
          "grouped": sound.Shape(dim=24, hidden=20, layers=3, heads=6, kv_heads=2, tied=False, context=33),
          "plain": sound.Shape(heads=2, kv_heads=2), "wide": sound.Shape(dim=64, hidden=192, heads=4, context=100)}


def assert_same_file(ours, theirs, version, shape):
    """Asserts equal bytes. The RoPE tables of version 0 may differ by 1e-6: they come from different math libraries."""
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
    floats = tmp_path / "floats.bin"  # the source: version 0 stores the weights unchanged
    floats.write_bytes(sound.Llama2c(0, shape).pack())
    succeed("export", floats, "--format", "llama2c", "--version", version, "--out", tmp_path / "ours.bin")
    assert_same_file((tmp_path / "ours.bin").read_bytes(), theirs, version, shape)


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_published_format_is_read(tmp_path, shape, version):
    """Exports the file to GGUF and compares the bits of all weights, or the dequantized values of version 2."""
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


def test_vocabulary_uses_llama2cs_ids(tmp_path):
    """Exporting a GGUF moves rows to the ids that llama2.c uses for bytes; tokenizer.bin has a text for each id."""
    shape = sound.Shape(tied=False)
    arrays = sound.weights(shape)
    (tmp_path / "m.gguf").write_bytes(sound.Gguf(shape, arrays).pack())
    succeed("export", tmp_path / "m.gguf", "--format", "llama2c", "--out", tmp_path / "m.bin")
    data = (tmp_path / "m.bin").read_bytes()
    numbers = struct.unpack("<7i", data[:28])
    n_ids = 259 + 1  # 3 special tokens, 256 bytes, and "é", which has two bytes
    assert numbers == (8, 12, 1, 2, 1, -n_ids, 16)
    embedding = np.frombuffer(data[28:28 + 4 * n_ids * 8], dtype=np.float32).reshape(n_ids, 8)
    output = np.frombuffer(data[-4 * n_ids * 8:], dtype=np.float32).reshape(n_ids, 8)
    end = len(sound.CHARACTERS)
    source = [end] * n_ids
    for row, character in enumerate(sound.CHARACTERS):
        source[259 if character == "é" else 3 + ord(character)] = row
    assert embedding.tobytes() == arrays["token_embd.weight"][source].tobytes()
    assert output.tobytes() == arrays["output.weight"][source].tobytes()
    assert_bits_of_layers(data, n_ids, arrays)

    vocabulary = (tmp_path / "m.tokenizer.bin").read_bytes()
    longest, at, pieces = struct.unpack_from("<i", vocabulary)[0], 4, []
    while at < len(vocabulary):
        score, size = struct.unpack_from("<fi", vocabulary, at)
        pieces.append(vocabulary[at + 8:at + 8 + size])
        at += 8 + size
        assert score == 0.0
    assert len(pieces) == n_ids and longest == max(map(len, pieces))
    assert pieces[259] == "é".encode() and pieces[3 + ord("a")] == b"<0x61>"


def assert_bits_of_layers(data, n_ids, arrays):
    at = 28 + 4 * n_ids * 8
    for role in sound.ORDER_0[1:-1]:
        array = arrays[f"blk.0.{role}.weight"]
        assert data[at:at + array.nbytes] == array.tobytes(), role
        at += array.nbytes
    assert data[at:at + 32] == arrays["output_norm.weight"].tobytes()
