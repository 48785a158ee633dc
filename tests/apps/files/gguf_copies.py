"""Rewrites GGUF files with the gguf package, with layouts and keys that other programs write."""

import gguf
import numpy as np


def copy(source, target, change=lambda tensors: tensors, keys=None, without=(), **writer_options):
    """Copies a GGUF file without the metadata fields in `without`. `keys` is {name: new string, integer or float}, and
    `change` is a function of all tensors, {name: (array, type)}, that returns the tensors to write. A type of None is
    that of the array."""
    reader = gguf.GGUFReader(source)
    keys = dict(keys or {})
    architecture = keys.pop("general.architecture", reader.fields["general.architecture"].contents())
    writer = gguf.GGUFWriter(target, architecture, **writer_options)
    for key, value in keys.items():
        {str: writer.add_string, int: writer.add_uint32, float: writer.add_float32}[type(value)](key, value)
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture" or key in keys or key in without:
            continue
        kinds = field.types
        if kinds[0] != gguf.GGUFValueType.ARRAY:
            writer.add_key_value(key, field.contents(), kinds[0])
        elif len(field.data):
            writer.add_key_value(key, field.contents(), kinds[0], sub_type=kinds[-1])
    for name, (array, kind) in change({t.name: (t.data, t.tensor_type) for t in reader.tensors}).items():
        writer.add_tensor(name, np.ascontiguousarray(array), raw_dtype=kind)
    finish(writer)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def with_fused_qkv(tensors):
    """Concatenates the rows of q, k and v into attn_qkv.weight and attn_qkv.bias, as in files of ChatGLM2 and 3."""
    out = {}
    for name, (array, kind) in tensors.items():
        if ".attn_q." not in name and ".attn_k." not in name and ".attn_v." not in name:
            out[name] = array, kind
        elif ".attn_q." in name:
            parts = [tensors[name.replace("attn_q", f"attn_{letter}")] for letter in "qkv"]
            assert len({kind for _, kind in parts}) == 1
            out[name.replace("attn_q", "attn_qkv")] = np.concatenate([part for part, _ in parts]), kind
    return out


def with_one_latent_matrix(tensors, model):
    """Replaces attn_k_b and attn_v_b by attn_kv_b, the model's kv_b_proj, in the type of attn_v_b."""
    out = {}
    for name, (array, kind) in tensors.items():
        if ".attn_v_b." in name:
            layer = name.split(".")[1]
            both = model.state_dict()[f"model.layers.{layer}.self_attn.kv_b_proj.weight"].numpy()
            out[name.replace("attn_v_b", "attn_kv_b")] = gguf.quants.quantize(both, kind), kind
        elif ".attn_k_b." not in name:
            out[name] = array, kind
    return out
