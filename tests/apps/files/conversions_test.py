"""Tests `export` between all formats: which bits are kept, how values are rounded, and which inputs are rejected."""

import json

import gguf
import numpy as np
import pytest
import safetensors.numpy

import sound
from support import FAILED, WRONG_USAGE, assert_refused, export, run, succeed

SHAPE = sound.Shape(dim=24, hidden=20, layers=2, heads=4, kv_heads=2, tied=False, theta=500000.0, eps=1e-6)
LLAMA2C = sound.Shape(layers=2, tied=False)
BLOCK_TYPES = ["q8_0", "q4_0", "q4_1"]
FILE_TYPES = {"f32": 0, "f16": 1, "bf16": 32, "q8_0": 7, "q4_0": 2, "q4_1": 3}  # llama.cpp's enum llama_ftype


def bits_of(gguf_file):
    """Returns {tensor name: (type, bytes)}, read by the gguf package."""
    return {t.name: (t.tensor_type.name, t.data.tobytes()) for t in gguf.GGUFReader(gguf_file).tensors}


def write(path, shape, arrays, form="gguf"):
    """Writes a model to the path as GGUF, or as a Hugging Face directory if `form` is "hf". Returns the path."""
    if form == "hf":
        return sound.HfDirectory(shape, arrays).write(path)
    path.write_bytes(sound.Gguf(shape, arrays).pack())
    return path


def planted(shape, kind):
    """Returns random weights of type `kind`. They include NaNs with payloads, infinities, -0 and subnormals."""
    arrays = sound.weights(shape, np.float16 if kind == "f16" else np.float32)
    odd = {"f32": [0x7FA00001, 0xFFC12345, 0x7F800000, 0xFF800000, 0x80000000, 1, 0x807FFFFF],
           "f16": [0x7D01, 0xFE23, 0x7C00, 0xFC00, 0x8000, 1, 0x83FF],
           "bf16": [0x7FA1, 0xFFC1, 0x7F80, 0xFF80, 0x8000, 1, 0x807F]}[kind]
    for name, array in arrays.items():
        if array.ndim == 1:
            continue
        if kind == "bf16":
            arrays[name] = array = (array.view(np.uint32) >> 16).astype(np.uint16)
        array.reshape(-1).view(np.uint32 if kind == "f32" else np.uint16)[1:1 + len(odd)] = odd
    return arrays


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("shards", [[], ["--max-shard-bytes", "3000"]], ids=["one file", "shards"])
def test_gguf_hugging_face_round_trip_is_exact(tmp_path, kind, shards):
    write(tmp_path / "a.gguf", SHAPE, planted(SHAPE, kind))
    before = bits_of(tmp_path / "a.gguf")
    assert before["blk.0.attn_q.weight"][0] == kind.upper()
    export(tmp_path / "a.gguf", tmp_path / "hf", "--format", "hf", *shards)
    assert (tmp_path / "hf" / "model.safetensors.index.json").exists() == bool(shards)
    assert bits_of(export(tmp_path / "hf", tmp_path / "b.gguf")) == before
    assert gguf.GGUFReader(tmp_path / "b.gguf").fields["general.file_type"].contents() == FILE_TYPES[kind]
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert (config["rope_theta"], config["rms_norm_eps"]) == (500000.0, 1e-6)


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16"])
def test_gguf_to_gguf_is_exact_with_tokenizer(tmp_path, kind):
    model = sound.Gguf(SHAPE, planted(SHAPE, kind))
    model.key("tokenizer.chat_template", sound.STRING, "a key that is not read here")
    (tmp_path / "a.gguf").write_bytes(model.pack())
    export(tmp_path / "a.gguf", tmp_path / "b.gguf")
    assert bits_of(tmp_path / "b.gguf") == bits_of(tmp_path / "a.gguf")
    before, after = (gguf.GGUFReader(tmp_path / name) for name in ("a.gguf", "b.gguf"))
    kept = [key for key in before.fields if key.startswith(("tokenizer.", "llama.", "general.name"))]
    for key in kept:
        assert after.fields[key].contents() == before.fields[key].contents(), key
    assert "tokenizer.chat_template" in kept


BLOCKS = sound.Shape(dim=64, hidden=96, layers=2, heads=4, kv_heads=2, tied=False)


def of_tokens(name):
    return name in ("token_embd.weight", "output.weight")


@pytest.mark.parametrize("kind", BLOCK_TYPES)
@pytest.mark.parametrize("form", ["gguf", "hf"])
def test_blocks_match_the_gguf_package(tmp_path, kind, form):
    arrays = sound.weights(BLOCKS)
    source = write(tmp_path / "source", BLOCKS, arrays, form)
    read = bits_of(export(source, tmp_path / "m.gguf", "--type", kind))
    assert read.keys() == arrays.keys()
    for name, array in arrays.items():
        expected = "F32" if array.ndim == 1 else "Q8_0" if of_tokens(name) else kind.upper()
        blocks = gguf.quants.quantize(array, gguf.GGMLQuantizationType[expected])
        assert read[name] == (expected, blocks.tobytes()), name
    fields = gguf.GGUFReader(tmp_path / "m.gguf").fields
    assert fields["general.file_type"].contents() == FILE_TYPES[kind]
    assert fields["general.quantization_version"].contents() == 2
    again = export(tmp_path / "m.gguf", tmp_path / "again.gguf")
    assert bits_of(again) == read


MIXED = sound.Shape(dim=256, hidden=512, layers=3, heads=4, kv_heads=1, tied=False)
MIXTURES = {"q4_k_m": ("Q4_K", 15), "q5_k_m": ("Q5_K", 17), "q6_k": ("Q6_K", 18)}


@pytest.mark.parametrize("kind", MIXTURES)
@pytest.mark.parametrize("form", ["gguf", "hf"])
def test_mixtures_match_llama_cpp(tmp_path, kind, form):
    arrays = sound.weights(MIXED)
    done = succeed("export", write(tmp_path / "source", MIXED, arrays, form), "--out", tmp_path / "m.gguf", "--type", kind)
    assert "not whole blocks" not in done.stderr, done.stderr
    read = bits_of(tmp_path / "m.gguf")
    most, number = MIXTURES[kind]
    for name, array in arrays.items():
        more = name == "output.weight" or name in ("blk.2.attn_v.weight", "blk.2.ffn_down.weight")
        assert read[name][0] == ("F32" if array.ndim == 1 else "Q6_K" if more else most), name
    fields = gguf.GGUFReader(tmp_path / "m.gguf").fields
    assert fields["general.file_type"].contents() == number
    assert fields["general.quantization_version"].contents() == 2
    assert bits_of(export(tmp_path / "m.gguf", tmp_path / "again.gguf")) == read


def test_mixtures_report_fallback_types(tmp_path):
    (tmp_path / "a.gguf").write_bytes(sound.Gguf(sound.Shape(dim=64, hidden=72)).pack())
    done = succeed("export", tmp_path / "a.gguf", "--out", tmp_path / "b.gguf", "--type", "q4_k_m")
    assert "8 of 8 matrices have rows that are not whole blocks of 256" in done.stderr, done.stderr
    read = bits_of(tmp_path / "b.gguf")
    assert read["blk.0.ffn_down.weight"][0] == "F16" and read["token_embd.weight"][0] == "Q8_0"
    assert read["blk.0.attn_q.weight"][0] == "Q5_0"


@pytest.mark.parametrize("args, dtype", [([], np.float32), (["--type", "f16"], np.float16)])
def test_blocks_are_dequantized_for_hugging_face(tmp_path, args, dtype):
    write(tmp_path / "a.gguf", BLOCKS, sound.weights(BLOCKS))
    export(tmp_path / "a.gguf", tmp_path / "b.gguf", "--type", "q4_1")
    done = succeed("export", tmp_path / "b.gguf", "--out", tmp_path / "hf", "--format", "hf", *args)
    assert ("its blocks are written as f32" in done.stderr) == (not args)
    arrays = {t.name: gguf.quants.dequantize(t.data, t.tensor_type).reshape(t.shape[::-1])
              for t in gguf.GGUFReader(tmp_path / "b.gguf").tensors}
    written = safetensors.numpy.load_file(tmp_path / "hf" / "model.safetensors")
    for name, array in sound.hf_arrays(BLOCKS, arrays).items():
        expected = array if array.ndim == 1 else array.astype(dtype)
        assert written[name].dtype == expected.dtype and (written[name] == expected).all(), name


def test_blocks_are_dequantized_for_llama2c(tmp_path):
    shape = sound.Shape(dim=64, hidden=96, layers=1, heads=4)
    write(tmp_path / "a.gguf", shape, sound.weights(shape))
    export(tmp_path / "a.gguf", tmp_path / "b.gguf", "--type", "q8_0")
    export(tmp_path / "b.gguf", tmp_path / "m.bin", "--format", "llama2c", "--type", "f32")
    export(tmp_path / "m.bin", tmp_path / "c.gguf", "--tokenizer", tmp_path / "m.tokenizer.bin")
    blocks = next(t for t in gguf.GGUFReader(tmp_path / "b.gguf").tensors if t.name == "blk.0.ffn_up.weight")
    floats = bits_of(tmp_path / "c.gguf")["blk.0.ffn_up.weight"]
    assert floats == ("F32", gguf.quants.dequantize(blocks.data, blocks.tensor_type).tobytes())


@pytest.mark.parametrize("bits, kind", [(16, "f16"), (8, "q8_0"), (4, "q4_0")])
def test_bits_are_aliases_of_types(tmp_path, bits, kind):
    (tmp_path / "a.gguf").write_bytes(sound.Gguf(BLOCKS).pack())
    typed = export(tmp_path / "a.gguf", tmp_path / "typed.gguf", "--type", kind).read_bytes()
    assert export(tmp_path / "a.gguf", tmp_path / "b.gguf", "-b", bits).read_bytes() == typed
    assert export(tmp_path / "a.gguf", tmp_path / "c.gguf", "--bits", bits).read_bytes() == typed


@pytest.mark.parametrize("args, part", [
    (["--format", "gguf", "--version", "0"], "--version"),
    (["--format", "gguf", "--max-shard-bytes", "1000"], "--max-shard-bytes"),
    (["--format", "hf", "--max-shard-bytes", "0"], "--max-shard-bytes"),
    (["--format", "llama2c", "--type", "f16"], "expected f32, or q8_0"),
    (["--format", "hf", "--type", "q8_0"], "--type q8_0 requires --format gguf or llama2c"),
    (["--format", "hf", "--type", "q4_0"], "--type q4_0 requires --format gguf\n"),
    (["--format", "llama2c", "--type", "q8_0", "--version", "1"], "--type q8_0 requires --version 2"),
    (["--format", "llama2c", "--type", "f32", "--version", "2"], "--version 2 requires --type q8_0, not f32"),
    (["--format", "llama2c", "--version", "3"], "--version"), (["--format", "onnx"], "--format"),
    (["--type", "f64"], "--type"), (["-b", "5"], "--bits"),
    (["-b", "8", "--type", "q8_0"], "--bits and --type both select the type"),
])
def test_invalid_combinations_are_usage_errors(tmp_path, args, part):
    (tmp_path / "a.gguf").write_bytes(sound.Gguf(LLAMA2C).pack())
    assert_refused(run("export", tmp_path / "a.gguf", "--out", tmp_path / "b", *args), WRONG_USAGE, part)
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("kind, place, value", [("f32", "blk.1.ffn_down.weight", np.nan), ("f16", "token_embd.weight", np.inf),
                                               ("bf16", "token_embd.weight", -np.inf), ("f32", "output_norm.weight", np.nan)])
def test_non_finite_half_weights_are_rejected(tmp_path, kind, place, value):
    """--type f16 rejects NaNs and infinities in 16-bit sources, too. Without --type, export keeps all values."""
    arrays = sound.weights(SHAPE, np.float16 if kind == "f16" else np.float32)
    arrays[place].reshape(-1)[-1] = value
    if kind == "bf16":
        arrays = {name: (a.view(np.uint32) >> 16).astype(np.uint16) if a.ndim > 1 else a for name, a in arrays.items()}
    write(tmp_path / "a.gguf", SHAPE, arrays)
    done = run("export", tmp_path / "a.gguf", "--out", tmp_path / "b.gguf", "--type", "f16")
    assert_refused(done, FAILED, tmp_path / "a.gguf", f'tensor "{place}" contains {str(value)}', "convert or train the model again")
    assert not (tmp_path / "b.gguf").exists()
    assert bits_of(export(tmp_path / "a.gguf", tmp_path / "b.gguf")) == bits_of(tmp_path / "a.gguf")


def test_names_of_folders_keep_their_dots(tmp_path):
    model = write(tmp_path / "Model-1.5B", LLAMA2C, sound.weights(LLAMA2C), "hf")
    exported = gguf.GGUFReader(export(model, tmp_path / "a.gguf"))
    assert exported.get_field("general.name").contents() == "Model-1.5B"
    export(model, tmp_path / "m-0.5", "--format", "llama2c")
    assert (tmp_path / "m-0.5.tokenizer.bin").exists()


def test_names_that_are_not_strings_are_ignored(tmp_path):
    model = sound.Gguf(SHAPE)
    model.key("general.name", sound.U32, 7)
    (tmp_path / "a.gguf").write_bytes(model.pack())
    assert gguf.GGUFReader(export(tmp_path / "a.gguf", tmp_path / "b.gguf")).get_field("general.name").contents() == "a"


@pytest.mark.parametrize("token", [999999, 2**32 + 5])
def test_end_tokens_outside_the_vocabulary_are_left_out(tmp_path, token):
    model = sound.Gguf(SHAPE)
    model.key("tokenizer.ggml.eom_token_id", sound.U64, token)
    (tmp_path / "a.gguf").write_bytes(model.pack())
    assert not (export(tmp_path / "a.gguf", tmp_path / "hf", "--format", "hf") / "generation_config.json").exists()


@pytest.mark.parametrize("name", ["pytorch_model.bin", "pytorch_model.bin.index.json", "consolidated.00.pth"])
def test_pickled_weights_are_rejected_with_a_remedy(tmp_path, name):
    (tmp_path / "a.gguf").write_bytes(sound.Gguf(SHAPE).pack())
    folder = export(tmp_path / "a.gguf", tmp_path / "hf", "--format", "hf")
    (folder / name).write_bytes(b"PK\x03\x04")
    export(folder, tmp_path / "b.gguf")  # succeeds: pickled files are ignored if there are safetensors
    (folder / "model.safetensors").unlink()
    done = run("export", folder, "--out", tmp_path / "c.gguf")
    assert_refused(done, FAILED, folder, name, "save_pretrained(OUT, safe_serialization=True)")
