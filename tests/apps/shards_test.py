"""Tests --shards: outputs are the same with any number of shards, and each shard's memory is on its own NUMA node."""

import os
import subprocess
import sys

import pytest

from support import BUILD, FAILED, GOLDEN, SMOLLM2, WRONG_USAGE, assert_refused, environment, one_json, run, succeed


@pytest.mark.parametrize("model, numbers", [(GOLDEN, (2, 3)), (SMOLLM2, (3,))], ids=["characters", "smollm2"])
def test_outputs_do_not_depend_on_the_number_of_shards(model, numbers, tmp_path):
    file = tmp_path / "prompts.txt"
    file.write_text("Once upon a time\nROMEO: what say you, and why do you say it?\nO\n")
    for flags in (["-s", 3, "-n", 40], ["--beams", 3, "--beams-out", 2, "-n", 12], ["-s", 4, "-n", 30, "--cache-type", "f32"],
                  ["-s", 4, "-n", 30, "--cache-type", "q8_0"]):
        command = ["generate", "--json", "-m", model, "--prompts", file, "-t", 2, *flags]
        expected = one_json(succeed(*command, "--shards", 1).stdout)["results"]
        for n in numbers:
            assert one_json(succeed(*command, "--shards", n).stdout)["results"] == expected, f"{n} shards, {flags}"


def may_ask_for_memory():
    """Returns True if the system lists NUMA nodes and a process may set a memory policy that prefers one of them, which
    some containers forbid."""
    ask = "import ctypes; mask = ctypes.c_ulong(1); exit(ctypes.CDLL(None).syscall(238, 1, ctypes.byref(mask), 64) != 0)"
    return (os.uname().machine == "x86_64" and os.path.exists("/sys/devices/system/node/online")
            and os.path.exists("/proc/self/numa_maps") and subprocess.run([sys.executable, "-c", ask]).returncode == 0)


@pytest.mark.skipif(not may_ask_for_memory(), reason="memory nodes can't be asked for here")
def test_shards_request_memory_of_their_node():
    """Reads the memory policies of the server's threads from /proc. At least one policy must prefer a NUMA node."""
    with subprocess.Popen([BUILD / "serve", "-m", GOLDEN, "--port", "0", "--shards", "2"], stdout=subprocess.PIPE,
                          env=environment("/nonexistent")) as process:
        try:
            assert process.stdout.readline().startswith(b"http://")
            policies = set()
            for task in os.listdir(f"/proc/{process.pid}/task"):
                with open(f"/proc/{process.pid}/task/{task}/numa_maps") as maps:
                    policies |= {line.split()[1] for line in maps}
        finally:
            process.terminate()
    assert any(policy.startswith("prefer") for policy in policies), policies


def test_bench_reports_the_number_of_shards(golden_gguf):
    done = one_json(succeed("bench", "-m", golden_gguf, "--shards", 2, "-t", 2, "--prompt-tokens", 8, "--gen-tokens", 4,
                            "--json").stdout)
    assert (done["shards"], done["threads"]) == (2, 2) and done["decode_tokens_per_s"] > 0


@pytest.mark.parametrize("flags, code, parts", [
    (["--shards", 4], FAILED, ["4 shards", "3 tiles"]),
    (["--shards", 0], WRONG_USAGE, ["--shards", "[1, 64]"]),
    (["--shards", 2, "--device", "cuda", "--gpu-layers", 1], WRONG_USAGE, ["--shards 2", "1 of the 2 layers"]),
])
def test_indivisible_models_are_rejected(golden_gguf, flags, code, parts):
    assert_refused(run("generate", "-m", golden_gguf, "-n", 1, *flags, "ROMEO:"), code, *parts)
