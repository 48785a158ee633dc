"""Tests one model in several processes, started by hand and by torchrun: outputs equal those of one process. If a rank
dies or hangs, the others end with a line that names it, and running requests get an error."""

import json
import random
import signal
import subprocess
import threading
import urllib.error
import urllib.request

import pytest
import sound

from chat_model import write_chat_model
from ranks import TORCHRUN, Ranks
from support import (BUILD, FAILED, GOLDEN, HANG, INTERRUPTED, LONG, SMOLLM2, WRONG_USAGE, assert_refused, environment,
                     free_port, generate, one_json, run, succeed, wait_until)

pytestmark = pytest.mark.skipif(
    b"libgloo" not in subprocess.run(["readelf", "-d", BUILD / "generate"], capture_output=True, check=True).stdout,
    reason="built without Gloo")


def await_text(ranks):
    """Waits until rank 0 has printed 50 characters, so that generation is under way."""
    wait_until(lambda: len(ranks.out(0)) >= 50, lambda: ranks.processes[0].poll() is None)


def address_of(ranks):
    """Waits until the server is ready. Returns its address."""
    wait_until(lambda: "\n" in ranks.out(0), lambda: ranks.processes[0].poll() is None)
    return ranks.out(0).splitlines()[0]


def text_of(n, folder, *args, program="generate", **more):
    with Ranks(n, folder, program, "--json", *args, **more) as ranks:
        return one_json(ranks.succeed())


PROMPTS = "Once upon a time\nROMEO: what say you, and why do you say it?\nO\n"


GRIDS = [(2, 1, "shared"), (3, 1, "shared"), (2, 2, "shared"), (2, 1, "gloo")]  # ranks, pipeline stages, transport


def test_outputs_do_not_depend_on_the_grid(tmp_path):
    file = tmp_path / "prompts.txt"
    file.write_text(PROMPTS)
    kinds = [["-s", 3, "-n", 40], ["--beams", 3, "--beams-out", 2, "-n", 12], ["-s", 4, "-n", 30, "--cache-type", "q8_0"]]
    for i, flags in enumerate(kinds):
        command = ["-m", GOLDEN, "--prompts", file, "-t", 1, *flags]
        expected = one_json(succeed("generate", "--json", *command).stdout)["results"]
        for n, stages, transport in GRIDS:
            got = text_of(n, tmp_path / f"{i}", *command, "--pipeline-parallel", stages, FOLIO_RANK_TRANSPORT=transport)
            assert got["results"] == expected, (n, stages, transport, flags)


def test_speculation_works_with_ranks(tmp_path):
    flags = ["-m", GOLDEN, "-p", "hello hello hello", "-s", 5, "-n", 40, "-t", 1]
    plain = one_json(succeed("generate", "--json", *flags).stdout)["tokens"]
    assert text_of(2, tmp_path / "a", *flags, "--speculate", 4, "--draft-model", GOLDEN)["tokens"] == plain
    assert text_of(2, tmp_path / "b", *flags, "--speculate", 4)["tokens"] == plain
    assert text_of(2, tmp_path / "c", *flags, "--speculate", 4, "--draft-model", GOLDEN,
                   "--pipeline-parallel", 2)["tokens"] == plain


def test_torchrun_starts_ranks():
    command = ["-m", GOLDEN, "-p", "ROMEO:", "-s", 5, "-n", 40, "-t", 1]
    expected = one_json(succeed("generate", "--json", *command).stdout)["text"]
    done = subprocess.run([TORCHRUN, "--no-python", "--nproc-per-node", "2", "--master-port", str(free_port()),
                           BUILD / "generate", "--json", *map(str, command)],
                          capture_output=True, text=True, timeout=HANG, env=environment("/nonexistent"))
    assert done.returncode == 0, done.stderr
    assert one_json(done.stdout)["text"] == expected


def test_bench_reports_the_number_of_ranks(tmp_path):
    done = text_of(2, tmp_path / "two", "-m", GOLDEN, "-t", 1, "--prompt-tokens", 8, "--gen-tokens", 4, program="bench")
    assert (done["ranks"], done["pipeline_stages"], done["threads"]) == (2, 1, 1)
    assert done["decode_tokens_per_s"] > 0 and done["bandwidth_share"] is None


def test_bench_counts_no_experts_in_a_pipeline(tmp_path):
    shape = sound.Shape(family="qwen3_moe", dim=32, hidden=16, layers=2, context=64, experts=16, experts_per_token=3)
    (tmp_path / "experts.gguf").write_bytes(sound.Gguf(shape).pack())
    done = text_of(2, tmp_path / "two", "-m", tmp_path / "experts.gguf", "-t", 1, "--prompt-tokens", 8, "--gen-tokens", 4,
                   "--pipeline-parallel", 2, program="bench")
    assert done["decode_tokens_per_s"] > 0 and "experts_of_a_layer" not in done["batches"][0]


@pytest.mark.parametrize("stages", [1, 2])
def test_ctrl_c_ends_all_ranks(stages, tmp_path):
    with Ranks(2, tmp_path / "r", "generate", "-m", GOLDEN, "-n", 1000000, "--slide", "-t", 1, "--pipeline-parallel",
               stages, "ROMEO:") as ranks:
        await_text(ranks)
        for process in ranks.processes:
            process.send_signal(signal.SIGINT)  # like Ctrl-C in a terminal
        assert ranks.wait() == [INTERRUPTED, 0]


# ---- A missing, killed or hanging rank ----

@pytest.mark.parametrize("transport", ["shared", "gloo"])
@pytest.mark.parametrize("stages", [1, 2])
def test_killed_rank_ends_all_and_is_named(transport, stages, tmp_path):
    for victim in (1, 0):
        with Ranks(2, tmp_path / f"{victim}", "generate", "-m", GOLDEN, "-n", 1000000, "--slide", "-t", 1,
                   "--pipeline-parallel", stages, "ROMEO:", FOLIO_RANK_TRANSPORT=transport) as ranks:
            await_text(ranks)
            ranks.processes[victim].kill()
            assert ranks.wait() == ([-signal.SIGKILL, FAILED] if victim == 0 else [FAILED, -signal.SIGKILL])
            assert f"generate: rank {victim} of 2 disconnected" in ranks.line(1 - victim)


def test_hanging_rank_ends_the_pipeline(tmp_path):
    """Stops rank 1, which sends steps and residuals to rank 3 in the next pipeline stage. All other ranks must end."""
    with Ranks(4, tmp_path / "r", "generate", "-m", GOLDEN, "-n", 1000000, "--slide", "-t", 1, "--pipeline-parallel", 2,
               "ROMEO:", FOLIO_RANK_TIMEOUT="10") as ranks:
        await_text(ranks)
        ranks.processes[1].send_signal(signal.SIGSTOP)
        assert [ranks.processes[rank].wait(HANG) for rank in (0, 2, 3)] == [FAILED] * 3
        lines = [ranks.line(rank) for rank in (0, 2, 3)]  # some ranks may report an ended rank, not the stopped one
        assert any("did not respond within 10 s" in line for line in lines), lines
        assert all("did not respond within 10 s" in line or "disconnected" in line for line in lines), lines


@pytest.mark.parametrize("args_of, parts", [
    ({0: ["-m", GOLDEN], 1: ["-m", SMOLLM2]}, ["rank 1 of 2 has a different model"]),
    ({0: ["-m", GOLDEN], 1: ["-m", GOLDEN, "--cache-type", "q8_0"]}, ["rank 1 of 2 has a different model"]),
    ({0: ["-m", GOLDEN], 1: ["-m", "/nonexistent/model"]}, ["rank 1 of 2 failed: ", "/nonexistent/model"]),
], ids=["model", "cache", "file"])
def test_differently_started_ranks_are_rejected(args_of, parts, tmp_path):
    with Ranks(2, tmp_path / "r", "generate", args_of={r: [*a, "-n", 1, "-t", 1] for r, a in args_of.items()}) as ranks:
        assert ranks.wait() == [FAILED, FAILED]
        assert all(part in ranks.line(0) for part in parts), ranks.err(0)


@pytest.mark.parametrize("n, flags, code, parts", [
    (4, [], FAILED, ["4 ranks of a stage", "3 tiles"]),
    (3, ["--pipeline-parallel", 3], FAILED, ["--pipeline-parallel 3", "2 layers"]),
    (3, ["--pipeline-parallel", 2], WRONG_USAGE, ["--pipeline-parallel 2", "3 ranks"]),
    (2, ["--shards", 2], WRONG_USAGE, ["--shards", "WORLD_SIZE is 2"]),
    (2, ["--shards", 1, "--device", "cuda"], WRONG_USAGE, ["--device", "WORLD_SIZE is 2"]),
    (2, ["--device", "cuda"], WRONG_USAGE, ["--device", "WORLD_SIZE is 2"]),
])
def test_indivisible_models_are_rejected(n, flags, code, parts, tmp_path):
    with Ranks(n, tmp_path / "r", "generate", "-m", GOLDEN, "-n", 1, "-t", 1, *flags) as ranks:
        assert ranks.wait()[0] == code
        assert all(part in ranks.line(0) for part in parts), ranks.err(0)


def test_pipeline_requires_several_processes():
    assert_refused(run("generate", "-m", GOLDEN, "-n", 1, "--pipeline-parallel", 2), WRONG_USAGE,
                   "--pipeline-parallel 2", "torchrun")


# ---- The server ----

def post(address, path, body):
    return urllib.request.urlopen(urllib.request.Request(address + path, json.dumps(body).encode(),
                                                         {"Content-Type": "application/json"}), timeout=HANG)


def ask(address, **fields):
    return post(address, "/v1/completions",
                {"prompt": "ROMEO:", "seed": 5, "temperature": 1, "top_p": 1, "max_tokens": 40, **fields})


def test_server_gives_the_same_texts_and_ends_all_ranks(tmp_path):
    text = generate(GOLDEN, "-p", "ROMEO:", "-s", 5, "-n", 40, "-t", 1, "--temp", 1, "--top-p", 1)["text"]
    with Ranks(3, tmp_path / "r", "serve", "-m", GOLDEN, "--port", 0, "-t", 1) as ranks:
        address = address_of(ranks)
        assert json.load(ask(address))["choices"][0]["text"] == text
        for process in ranks.processes:
            process.send_signal(signal.SIGTERM)  # as torchrun does
        assert ranks.wait() == [0, 0, 0]


def test_explanations_match_one_process(tmp_path):
    flags = ["--ablate", "0.2", "--mean", "1.ffn", "--patch", "0.residual@2:1", "--from", "JULIET:"]
    body = {"ablate": ["0.2"], "mean": ["1.ffn"], "patch": ["0.residual@2:1"], "from": "JULIET:"}
    expected = one_json(succeed("explain", "ROMEO:", "-m", GOLDEN, "-t", 1, "--json", *flags).stdout)
    with Ranks(3, tmp_path / "r", "serve", "-m", GOLDEN, "--port", 0, "-t", 1) as ranks:
        address = address_of(ranks)
        text = json.load(ask(address))["choices"][0]["text"]
        for _ in range(2):
            got = json.load(post(address, "/v1/explain", {"prompt": "ROMEO:", **body}))
            assert {**got, "operations": None} == {**expected, "operations": None}
            assert json.load(ask(address))["choices"][0]["text"] == text
    with Ranks(2, tmp_path / "p", "serve", "-m", GOLDEN, "--port", 0, "-t", 1, "--pipeline-parallel", 2) as ranks:
        with pytest.raises(urllib.error.HTTPError) as error:
            post(address_of(ranks), "/v1/explain", {"prompt": "ROMEO:"})
        assert error.value.code == 400 and "one process" in json.load(error.value)["error"]["message"]


@pytest.mark.parametrize("stages", [1, 2])
def test_idle_server_ends_when_a_rank_dies(stages, tmp_path):
    with Ranks(2, tmp_path / "r", "serve", "-m", GOLDEN, "--port", 0, "-t", 1, "--pipeline-parallel", stages) as ranks:
        address_of(ranks)
        ranks.processes[1].kill()
        assert ranks.wait()[0] == FAILED
        assert "serve: rank 1 of 2 disconnected" in ranks.line(0)


@pytest.mark.parametrize("stages", [1, 2])
def test_streams_end_with_an_error_when_a_rank_dies(stages, tmp_path):
    model = write_chat_model(tmp_path / "endless.gguf", context=1 << 20)
    with Ranks(2, tmp_path / "r", "serve", "-m", model, "--port", 0, "-t", 1, "--pipeline-parallel", stages) as ranks:
        stream = ask(address_of(ranks), stream=True, max_tokens=100000, temperature=0, prompt="he")
        lines = [stream.readline() for _ in range(10)]
        assert all(b"error" not in line for line in lines)
        ranks.processes[1].kill()
        last = stream.read().decode()
        assert '"error"' in last and "rank 1 of 2 disconnected" in last, last[-300:]
        assert ranks.wait()[0] == FAILED


def end_of(address, stream):
    """Sends a request. Returns "whole" for a complete output, or how the request failed: an HTTP status, "refused",
    "error event" or "cut off"."""
    try:
        with ask(address, stream=stream, max_tokens=60, seed=random.randrange(1 << 30)) as answer:
            text = answer.read().decode()
    except urllib.error.HTTPError as error:
        return f"{error.code}"
    except (urllib.error.URLError, ConnectionError):
        return "refused"
    if '"error"' in text:
        return "error event"
    return "whole" if not stream or text.rstrip().endswith("[DONE]") else "cut off"


def test_soak_with_kills(tmp_path):
    """A rank is killed at a random time while six clients send requests: each request ends with output or an error."""
    random.seed(1)
    for round_ in range(40 if LONG else 2):
        n = random.choice([2, 3])
        stages = 2 if n == 2 and round_ % 2 == 0 else 1
        with Ranks(n, tmp_path / f"{round_}", "serve", "-m", GOLDEN, "--port", 0, "-t", 1, "--max-sequences", 4,
                   "--pipeline-parallel", stages, FOLIO_RANK_TRANSPORT=random.choice(["shared", "gloo"])) as ranks:
            address = address_of(ranks)
            ends = []

            def client(seed):
                for i in range(1000):
                    ends.append(end_of(address, stream=(seed + i) % 2 == 0))
                    if ends[-1] not in ("whole",):
                        return

            clients = [threading.Thread(target=client, args=(c,)) for c in range(6)]
            for c in clients:
                c.start()
            least = random.randint(1, 40)
            wait_until(lambda: len(ends) >= least)
            victim = random.randrange(1, n)
            ranks.processes[victim].kill()
            codes = ranks.wait()
            for c in clients:
                c.join(HANG)
                assert not c.is_alive()
            assert codes[0] == FAILED and f"rank {victim} of {n} disconnected" in ranks.line(0), ranks.err(0)[-500:]
            assert set(ends) <= {"whole", "503", "error event", "refused"}, set(ends)
            assert "whole" in ends
