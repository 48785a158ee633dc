"""Compares files of Folio with those of the packages gguf and safetensors. tests/apps/files compares whole models.

Each format is tested both ways: format_tool (format_tool.cpp) reads what the package writes, and the package reads what
format_tool writes. The environment variable FOLIO_FORMAT_TOOL has the tool's path.
"""

import json
import os
import subprocess

import gguf
import numpy as np
import pytest
import safetensors
from gguf import GGMLQuantizationType as Q
from gguf import GGUFValueType as V
from safetensors.numpy import load_file, save_file

TOOL = os.environ["FOLIO_FORMAT_TOOL"]


def ours(*args):
    done = subprocess.run([TOOL, *map(str, args)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if done.stdout else None


# ---- GGUF ----

SCALARS = {
    "u8": (V.UINT8, 255), "i8": (V.INT8, -128), "u16": (V.UINT16, 65535), "i16": (V.INT16, -32768),
    "u32": (V.UINT32, 2**32 - 1), "i32": (V.INT32, -(2**31)), "u64": (V.UINT64, 2**64 - 1),
    "i64": (V.INT64, -(2**63)), "f32": (V.FLOAT32, float(np.float32(1e-5))), "f64": (V.FLOAT64, 0.1),
    "bool.t": (V.BOOL, True), "bool.f": (V.BOOL, False), "string": (V.STRING, "Grüße\n日本"), "empty": (V.STRING, ""),
}
ARRAYS = {
    "a.u8": (V.UINT8, [0, 255]), "a.i8": (V.INT8, [-128, 127]), "a.u16": (V.UINT16, [1, 65535]),
    "a.i16": (V.INT16, [-1, 5]), "a.u32": (V.UINT32, [7]), "a.i32": (V.INT32, [-7, 7]),
    "a.u64": (V.UINT64, [2**64 - 1]), "a.i64": (V.INT64, [-(2**63), 1]), "a.f32": (V.FLOAT32, [0.5, -2.25]),
    "a.f64": (V.FLOAT64, [0.1, 1e300]), "a.bool": (V.BOOL, [True, False, True]), "a.str": (V.STRING, ["a", "", "é"]),
}
NESTED = [[1, 2], [3]]


def random_tensors():
    rng = np.random.default_rng(7)
    floats = rng.standard_normal((6, 512)).astype(np.float32)
    plain = {
        "f32": (floats[:, :5].copy(), None), "f16": (floats[0, :7].astype(np.float16), None),
        "f64": (floats[:2, :3].astype(np.float64), None), "i8": (np.arange(-4, 5, dtype=np.int8), None),
        "i16": (np.arange(24, dtype=np.int16).reshape(2, 3, 4), None), "i32": (np.arange(11, dtype=np.int32), None),
        "i64": (np.array([[-(2**63)]], dtype=np.int64), None),
    }
    packed = {q.name: (gguf.quants.quantize(floats, q), q) for q in (Q.BF16, Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q8_0)}
    # The gguf package can't quantize to these types, but has their block sizes.
    for q in (Q.Q2_K, Q.Q3_K, Q.Q4_K, Q.Q5_K, Q.Q6_K, Q.Q8_K):
        row = gguf.quant_shape_to_byte_shape((6, 512), q)
        packed[q.name] = (rng.integers(0, 256, row, dtype=np.uint8), q)
    return {**plain, **packed}


def write_with_gguf(path, alignment):
    writer = gguf.GGUFWriter(path, "llama")
    if alignment != 32:
        writer.add_custom_alignment(alignment)
    for key, (vtype, value) in SCALARS.items():
        writer.add_key_value(key, value, vtype)
    for key, (vtype, value) in ARRAYS.items():
        writer.add_key_value(key, value, V.ARRAY, sub_type=vtype)
    writer.add_key_value("nested", NESTED, V.ARRAY)
    tensors = random_tensors()
    for name, (data, qtype) in tensors.items():
        writer.add_tensor(name, data, raw_dtype=qtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tensors


def logical_shape(data, qtype):
    return list(data.shape if qtype is None else gguf.quant_shape_from_byte_shape(data.shape, qtype))


def array_items(entry):
    return [array_items(i) if isinstance(i, dict) else i for i in entry["items"]]


@pytest.mark.parametrize("alignment", [32, 64, 16])
def test_folio_reads_files_of_gguf(tmp_path, alignment):
    path = tmp_path / "f.gguf"
    tensors = write_with_gguf(path, alignment)
    read = ours("dump", path)
    metadata = read["metadata"]
    assert metadata["general.architecture"] == {"type": V.STRING, "value": "llama"}
    for key, (vtype, value) in SCALARS.items():
        assert metadata[key] == {"type": vtype, "value": value}, key
        assert type(metadata[key]["value"]) is type(value), key
    for key, (vtype, value) in ARRAYS.items():
        assert (metadata[key]["type"], metadata[key]["of"]) == (V.ARRAY, vtype), key
        assert metadata[key]["items"] == value, key
    assert array_items(metadata["nested"]) == NESTED
    assert len(metadata) == 2 + len(SCALARS) + len(ARRAYS) + (alignment != 32)

    assert [t["name"] for t in read["tensors"]] == list(tensors)
    for entry in read["tensors"]:
        data, qtype = tensors[entry["name"]]
        assert entry["shape"] == logical_shape(data, qtype), entry["name"]
        assert bytes.fromhex(entry["hex"]) == data.tobytes(), entry["name"]
        assert entry["type"] == (qtype.name if qtype else entry["name"].upper())


@pytest.mark.parametrize("alignment", [32, 64])
def test_gguf_reads_files_of_folio(tmp_path, alignment):
    tensors = write_with_gguf(tmp_path / "in.gguf", alignment)
    ours("rewrite", tmp_path / "in.gguf", tmp_path / "out.gguf")
    reader = gguf.GGUFReader(tmp_path / "out.gguf")
    assert reader.alignment == 32 and "general.alignment" not in reader.fields
    for key, (vtype, value) in SCALARS.items():
        field = reader.fields[key]
        assert field.types == [vtype] and field.contents() == value, key
    for key, (vtype, value) in ARRAYS.items():
        field = reader.fields[key]
        assert field.types == [V.ARRAY, vtype] and field.contents() == value, key
    assert reader.fields["nested"].types[:2] == [V.ARRAY, V.ARRAY]
    assert [t.name for t in reader.tensors] == list(tensors)
    for tensor in reader.tensors:
        data, qtype = tensors[tensor.name]
        assert tensor.data_offset % 32 == 0
        assert list(map(int, tensor.shape))[::-1] == logical_shape(data, qtype)
        assert tensor.data.tobytes() == data.tobytes(), tensor.name
        assert tensor.n_bytes == data.nbytes
        if qtype is not None:
            assert tensor.tensor_type == qtype


# ---- safetensors ----

def numpy_tensors():
    rng = np.random.default_rng(3)
    return {
        "z.first": rng.standard_normal((3, 5)).astype(np.float32), "a": rng.standard_normal(7).astype(np.float16),
        "f64": rng.standard_normal((2, 2, 2)), "i8": np.arange(-3, 4, dtype=np.int8),
        "u8": np.array([[255]], dtype=np.uint8), "i16": np.arange(5, dtype=np.int16),
        "i32": np.arange(16, dtype=np.int32), "i64": np.array([-(2**63)], dtype=np.int64),
        "scalar": np.array(2.5, dtype=np.float32), "nothing": np.zeros((0, 4), dtype=np.float32),
    }


def test_folio_reads_files_of_safetensors(tmp_path):
    tensors = numpy_tensors()
    save_file(tensors, tmp_path / "f.st", metadata={"format": "np", "naïve": "ü\n"})
    read = ours("dump", tmp_path / "f.st")
    assert read["metadata"] == {"format": "np", "naïve": "ü\n"}
    assert sorted(t["name"] for t in read["tensors"]) == sorted(tensors)
    for entry in read["tensors"]:
        array = tensors[entry["name"]]
        assert entry["shape"] == list(array.shape)
        assert entry["type"] == {"f": "F", "i": "I", "u": "U"}[array.dtype.kind] + str(8 * array.itemsize)
        assert bytes.fromhex(entry["hex"]) == array.tobytes()


def test_safetensors_reads_files_of_folio(tmp_path):
    tensors = numpy_tensors()
    save_file(tensors, tmp_path / "in.st", metadata={"format": "np"})
    ours("rewrite", tmp_path / "in.st", tmp_path / "out.st")
    read = load_file(tmp_path / "out.st")
    pads = [name for name in read if name.startswith("__pad__.")]
    assert pads and all(not read.pop(name).any() for name in pads)
    assert set(read) == set(tensors)
    for name, array in tensors.items():
        assert (read[name].dtype, read[name].shape, read[name].tobytes()) == (array.dtype, array.shape, array.tobytes())
    with safetensors.safe_open(tmp_path / "out.st", framework="np") as file:
        assert file.metadata() == {"format": "np"}
