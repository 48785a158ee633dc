"""Tests that modules/ builds without the rest of Folio: its files, and the few that they include from src/core, are
copied to an empty folder. example.cpp trains with the losses and gradients of `train --fused false`. pretrained.cpp
computes the same logits of a published model as transformers, and samples from it."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import numpy as np
import pytest
import torch
import transformers
from safetensors.numpy import load_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("FOLIO_BUILD_DIR", ROOT / "build"))
SMOLLM2 = ROOT / "data" / "smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
PROMPT = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
STEPS = 20
CMAKE = """cmake_minimum_required(VERSION 3.20)
project(textbook CXX)
set(CMAKE_CXX_STANDARD 20)
find_package(Torch REQUIRED)
find_package(fmt REQUIRED)
file(GLOB sources modules/*.cpp src/core/*.cpp)
add_executable(textbook ${sources})
target_include_directories(textbook BEFORE PRIVATE . src)
target_link_libraries(textbook PRIVATE fmt::fmt ${TORCH_LIBRARIES})
target_include_directories(textbook BEFORE PRIVATE FMT)
set_target_properties(textbook PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
"""
# Calls the main() of example.cpp or of pretrained.cpp, which the test renames to example() and pretrained(), so that
# one program can contain both.
MAIN = """#include <string>
int example(int argc, char** argv);
int pretrained(int argc, char** argv);
int main(int argc, char** argv) {
  return argv[1] == std::string("example") ? example(argc - 1, argv + 1) : pretrained(argc - 1, argv + 1);
}
"""
# C++ code that, in the first step, writes the gradient of each parameter to a file, before gradients are clipped.
DUMP = """    if (step == 0) {
      for (const auto& p : model->named_parameters()) {
        const auto grad = p.value().grad().contiguous();
        std::ofstream(p.key()).write(static_cast<const char*>(grad.data_ptr()), grad.nbytes());
      }
    }
"""


def needed(file, found):
    """Adds `file` and its .cpp file to the set `found`, and recursively the project's headers that they include."""
    if file in found or not file.exists():
        return
    found.add(file)
    needed(file.with_suffix(".cpp"), found)
    for header in re.findall(r'^#include "(.*)"$', file.read_text(encoding="utf-8"), re.M):
        needed(ROOT / ("src" if header.startswith("core/") else "") / header, found)


@pytest.fixture(scope="module")
def textbook(tmp_path_factory):
    """Builds modules/ in an empty folder, and returns the folder and the program, FOLDER/build/textbook."""
    folder = tmp_path_factory.mktemp("textbook")
    found = set()
    for name in ("example", "pretrained"):
        needed(ROOT / "modules" / f"{name}.cpp", found)
    core = {f.stem for f in found if f.parent.name == "core"}
    assert core == {"error", "families", "model_config", "utf8"}
    assert {f.parent for f in found} == {ROOT / "modules", ROOT / "src" / "core"}
    for file in found:
        target = folder / file.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
    for name in ("example", "pretrained"):
        source = folder / "modules" / f"{name}.cpp"
        text = source.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 40 and text.count("int main(") == 1
        text = text.replace("int main(", f"int {name}(").replace("<torch/utils.h>", "<torch/utils.h>\n\n#include <fstream>")
        text = text.replace("    loss.backward();\n", "    loss.backward();\n" + DUMP)
        source.write_text(text[:text.rindex("}")] + "  return 0;\n}\n", encoding="utf-8")
    (folder / "modules/main.cpp").write_text(MAIN, encoding="utf-8")
    (folder / "CMakeLists.txt").write_text(CMAKE.replace("FMT", str(BUILD / "include")), encoding="utf-8")
    torch_dir = re.search(r"^Torch_DIR:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(encoding="utf-8"), re.M).group(1)
    subprocess.run(["cmake", "-S", folder, "-B", folder / "build", "-DCMAKE_BUILD_TYPE=Release", f"-DTorch_DIR={torch_dir}",
                    "-DCMAKE_CXX_FLAGS_RELEASE=-O0"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", folder / "build"], check=True, stdout=subprocess.DEVNULL)
    return folder, folder / "build/textbook"


@pytest.fixture(scope="module")
def trained(textbook):
    example, program = textbook
    text = example / "text.txt"
    text.write_text("".join(f"{i} times {j} is {i * j}.\n" for i in range(60) for j in range(20)), encoding="utf-8")
    command = [BUILD / "train", text, "--fused", "false", "--threads", 1, "--steps", STEPS, "--dim", 64, "--layers", 3,
               "--heads", 4, "--kv-heads", 2, "--hidden-dim", 96, "--context", 64, "--window", 64, "--batch-size", 4,
               "--schedule", "constant", "--warmup-steps", 0, "--lr", 2e-3, "--weight-decay", 0, "--log-every", 1,
               "--dump-batches", example / "batches.npy", "--dump-grads", example / "grads.safetensors",
               "--out", example / "run"]
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    losses = [json.loads(line)["loss"] for line in (example / "run" / "log.jsonl").read_text().splitlines()]
    np.load(example / "batches.npy").tofile(example / "tokens")
    vocabulary = json.loads((example / "run/checkpoints/last/config.json").read_text())["vocab_size"]
    lines = subprocess.run([program, "example", "tokens", str(STEPS), str(vocabulary)], cwd=example,
                           env={**os.environ, "OMP_NUM_THREADS": "1"}, check=True, capture_output=True, text=True).stdout
    return losses, [float(line.split()[-1]) for line in lines.splitlines()]


def test_losses_match_the_trainer(trained):
    losses, own = trained
    assert len(own) == STEPS and np.float32(own[0]) == np.float32(losses[0])
    assert np.allclose(own, losses, rtol=0, atol=1e-5)


HF = {"attention_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attention.wq": "self_attn.q_proj",
      "attention.wk": "self_attn.k_proj", "attention.wv": "self_attn.v_proj", "attention.wo": "self_attn.o_proj",
      "ffn.w1": "mlp.gate_proj", "ffn.w3": "mlp.up_proj", "ffn.w2": "mlp.down_proj"}


def own_name(name):
    """Converts the Hugging Face name of a parameter to its name in modules/."""
    name = name.replace("model.", "").replace("embed_tokens", "tok_embeddings")
    for module, hf in HF.items():
        name = name.replace(hf, module)
    return name


def test_gradients_match_the_trainer_exactly(textbook, trained):
    example, _ = textbook
    theirs = load_file(example / "grads.safetensors")
    assert len(theirs) == 2 + 3 * len(HF)
    for name, gradient in theirs.items():
        own = own_name(name)
        value = np.fromfile(example / own, dtype=np.float32).reshape(gradient.shape)
        if own.endswith(("wq.weight", "wk.weight")):  # Hugging Face applies RoPE to halves of a head
            value = value.reshape(-1, 8, 2, 64).transpose(0, 2, 1, 3).reshape(-1, 64)
        assert value.tobytes() == gradient.tobytes(), name


def test_pretrained_logits_match_transformers(textbook, tmp_path):
    subprocess.run([BUILD / "export", SMOLLM2, "--out", tmp_path / "hf", "--format", "hf", "--type", "f32"], check=True)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "hf", dtype=torch.float32)
    for name, value in theirs.named_parameters():
        if name.endswith(("q_proj.weight", "k_proj.weight")):  # Hugging Face applies RoPE to halves of a head
            value = value.unflatten(0, (-1, 2, 32)).transpose(1, 2).flatten(0, 2)
        value.detach().numpy().tofile(tmp_path / own_name(name))

    prompt = tokenizer(PROMPT).input_ids
    command = [textbook[1], "pretrained", tmp_path, *map(str, prompt)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    sampled = [int(line) for line in lines]
    with torch.no_grad():
        expected = theirs(torch.tensor([prompt + sampled[:-1]])).logits[0]
    ours = torch.from_numpy(np.fromfile(tmp_path / "logits", dtype=np.float32)).view_as(expected)
    assert (ours - expected).abs().max().item() < 1e-4
    torch.manual_seed(1337)
    assert sampled == [torch.multinomial((row / 0.7).softmax(-1), 1).item() for row in expected[len(prompt) - 1:]]
    assert "Paris" in tokenizer.decode(sampled)
