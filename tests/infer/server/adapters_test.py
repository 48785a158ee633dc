"""Tests a server with many adapters: outputs equal those of `generate --lora`, whichever adapters are loaded, evicted
and reloaded meanwhile. Also tests names, errors, and the routes that vLLM has for adapters."""

import concurrent.futures
import itertools
import json
import random
import shutil
import signal
import subprocess

import openai
import pytest

from adapters import write_adapter
from api_test import client_of
from support import BUILD, FAILED, GOLDEN, WRONG_USAGE, assert_refused, generate, run
from wire import Wire, get, metric, post

N = 16
PROMPTS = ["ROMEO:", "JULIET:\nWhat", "O"]
TOKENS = 40
# Options of eight adapters: four of ranks 1 to 4 for different matrices, then four of rank 4 for all matrices.
KINDS = [dict(rank=1 + i, targets=targets) for i, targets in enumerate(
    [["q_proj", "v_proj"], ["down_proj"], ["k_proj", "o_proj"], ["gate_proj", "up_proj", "down_proj"]])] + [dict()] * 4


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("adapters")
    return {f"a{i}": write_adapter(folder / f"a{i}", GOLDEN, i, **KINDS[i % len(KINDS)]) for i in range(N)}


@pytest.fixture(scope="module")
def alone(folders):
    """Returns alone(name, prompt), which returns the output of `generate`; an empty name means no adapter."""
    texts = {}

    def text(name, prompt):
        if (name, prompt) not in texts:
            lora = ["--lora", folders[name]] if name else []
            texts[name, prompt] = generate(GOLDEN, "-p", prompt, "-n", TOKENS, "-s", 7, "--temperature", 1, "--top-p", 1,
                                           "-t", 1, *lora)["text"]
        return texts[name, prompt]

    return text


def bytes_of(folder):
    """Returns the number of bytes of an adapter's values, which follow the header of a safetensors file."""
    data = (folder / "adapter_model.safetensors").read_bytes()
    return len(data) - 8 - int.from_bytes(data[:8], "little")


def flags_of(folders):
    return [x for name, folder in folders.items() for x in ("--adapter", f"{name}={folder}")]


@pytest.fixture(scope="module")
def served(server, folders):
    return server(GOLDEN, "-t", "2", "--name", "golden", *flags_of(folders))


def ask(server, name, prompt, n=TOKENS):
    fields = {"model": name} if name else {}
    return post(server, "/v1/completions", {"prompt": prompt, "seed": 7, "max_tokens": n, **fields})


def at_once(work):
    """Runs work(i) on each of 16 threads. Then raises the first error, if there is one."""
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(16)))


def test_openai_client_lists_adapters(served, folders, alone):
    client = client_of(served)
    models = {model.id: model for model in client.models.list()}
    assert set(models) == {"golden", *folders}
    assert models["golden"].parent is None and models["a3"].parent == "golden"
    for name in ("a3", "golden"):
        got = client.completions.create(model=name, prompt="ROMEO:", seed=7, max_tokens=TOKENS, temperature=1)
        assert got.model == name and got.choices[0].text == alone(name if name in folders else "", "ROMEO:")
        stream = list(client.completions.create(model=name, prompt="ROMEO:", seed=7, max_tokens=TOKENS, stream=True))
        assert "".join(chunk.choices[0].text for chunk in stream) == got.choices[0].text
        assert {chunk.model for chunk in stream} == {name}
    with pytest.raises(openai.NotFoundError, match="a99"):
        client.completions.create(model="a99", prompt="ROMEO:")
    assert post(served, "/tokenize", {"model": "a3", "prompt": "RO"})[0] == 200
    assert post(served, "/tokenize", {"model": "a99", "prompt": "RO"})[0] == 404


def test_metrics_are_per_adapter(served):
    def tokens():
        text = get(served, "/metrics")[2].decode()
        return [float(line.split()[1]) for line in text.splitlines()
                if line.startswith("folio_model_generation_tokens_total{model=\"a5\"}")]

    ask(served, "a5", "ROMEO:", 5)
    before = tokens()
    ask(served, "a5", "ROMEO:", 5)
    assert tokens() == [before[0] + 5]
    assert metric(served, "folio_adapters") == metric(served, "folio_adapters_held") == N


def test_evicted_adapters_are_reloaded(start, folders, alone):
    """Requests for all 16 adapters give correct outputs although the adapter memory fits only about three of them."""
    room = 3 * max(bytes_of(folder) for folder in folders.values())
    server = start("--name", "golden", "--adapter-memory", str(room), *flags_of(folders))
    names = ["", *folders]
    assert len({alone(name, PROMPTS[0]) for name in names}) == N + 1
    for name, prompt in itertools.product(names, PROMPTS):  # fills the cache of alone() before several threads use it
        alone(name, prompt)

    def client(i):
        draw = random.Random(i)
        for _ in range(12):
            name, prompt, n = draw.choice(names), draw.choice(PROMPTS), draw.randint(1, TOKENS)
            status, answer = ask(server, name, prompt, n)
            assert status == 200, answer
            assert answer["choices"][0]["text"] == alone(name, prompt)[:n], (name, prompt, n)
            assert answer["model"] == (name or "golden")

    at_once(client)
    assert metric(server, "folio_adapter_drops_total") > N
    assert metric(server, "folio_adapter_bytes") <= room
    assert metric(server, "folio_adapters_held") < N == metric(server, "folio_adapters")
    used = [ask(server, name, "O", 1)[0] for name in ("a0", "a1", "a0", "a1")]
    loads = metric(server, "folio_adapter_loads_total")
    assert used == [200] * 4 and ask(server, "a1", "O", 1)[0] == 200
    assert metric(server, "folio_adapter_loads_total") == loads  # both adapters are still loaded


@pytest.mark.parametrize("used", ["a4", "a5"])
def test_adapters_that_were_never_used_are_evicted_first(start, folders, used):
    three = {name: folders[name] for name in ("a4", "a5", "a6")}  # of equal size; the first two are loaded at the start
    server = start("--adapter-memory", str(2 * bytes_of(folders["a4"])), *flags_of(three))
    assert [ask(server, name, "O", 1)[0] for name in (used, "a6", used)] == [200] * 3
    assert metric(server, "folio_adapter_loads_total") == 3 and metric(server, "folio_adapter_drops_total") == 1


def test_disconnected_clients_do_not_block_adapters(start, folders, alone):
    """The adapter memory fits one adapter. Waiting requests whose clients have disconnected don't block others."""
    room = max(bytes_of(folder) for folder in folders.values())
    server = start("--adapter-memory", str(room), *flags_of(folders))
    wires = [Wire(server).complete(model=f"a{i % N}", max_tokens=200) for i in range(40)]
    for wire in wires:
        wire.socket.close()
    assert ask(server, "a6", "ROMEO:")[1]["choices"][0]["text"] == alone("a6", "ROMEO:")
    assert metric(server, "folio_requests_waiting") == 0


@pytest.fixture
def open_server(start):
    return start("--name", "golden", "--allow-adapter-loading", "--max-adapters", "20")


def load(server, name, path):
    return post(server, "/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(path)})


def unload(server, name):
    return post(server, "/v1/unload_lora_adapter", {"lora_name": name})


def test_vllm_routes(open_server, folders, alone, tmp_path):
    assert load(open_server, "one", folders["a1"]) == (200, "Success: LoRA adapter 'one' added successfully.")
    assert ask(open_server, "one", "ROMEO:")[1]["choices"][0]["text"] == alone("a1", "ROMEO:")
    status, body = load(open_server, "one", folders["a2"])
    assert status == 400 and "loaded already" in body["error"]["message"]
    status, body = load(open_server, "two", tmp_path / "nowhere")
    assert status == 404 and "nowhere" in body["error"]["message"]
    bad = write_adapter(tmp_path / "bad", GOLDEN, 1)
    (bad / "adapter_model.safetensors").write_bytes(b"x" * 40)
    assert load(open_server, "two", bad)[0] == 400
    for name in ("", "golden", "a b", "x" * 129, "é"):
        assert load(open_server, name, folders["a2"])[0] == 400
    assert post(open_server, "/v1/load_lora_adapter", {"lora_name": "two"})[0] == 400
    assert post(open_server, "/v1/unload_lora_adapter", {})[0] == 400
    assert ask(open_server, "two", "ROMEO:")[0] == 404
    assert unload(open_server, "two")[0] == 404
    assert unload(open_server, "one") == (200, "Success: LoRA adapter 'one' removed successfully.")
    assert ask(open_server, "one", "ROMEO:")[0] == 404
    # The name of an unloaded adapter can be reused for another adapter, here one in a GGUF file.
    subprocess.run([BUILD / "export", folders["a2"], "--format", "gguf-lora", "--base", GOLDEN, "--out",
                    tmp_path / "a2.gguf"], check=True, capture_output=True)
    assert load(open_server, "two", GOLDEN / "model.safetensors")[0] == 400
    assert load(open_server, "one", tmp_path / "a2.gguf")[0] == 200
    assert ask(open_server, "one", "ROMEO:")[1]["choices"][0]["text"] == alone("a2", "ROMEO:")
    for i in range(2, 21):
        assert load(open_server, f"n{i}", folders["a3"])[0] == 200
    status, body = load(open_server, "n21", folders["a3"])
    assert status == 400 and "--max-adapters" in body["error"]["message"]


def test_running_requests_keep_their_adapter(open_server, folders, tmp_path):
    shutil.copytree(folders["a4"], tmp_path / "a4")
    assert load(open_server, "gone", tmp_path / "a4")[0] == 200
    expected = generate(GOLDEN, "-p", "ROMEO:", "-n", 200, "-s", 7, "--temperature", 1, "--top-p", 1, "-t", 1, "--lora",
                        folders["a4"])["text"]
    with Wire(open_server) as wire:
        wire.complete(model="gone", seed=7, max_tokens=200, stream=True)
        assert wire.head()[0] == 200
        events = wire.events()
        text = json.loads(next(events))["choices"][0]["text"]
        assert unload(open_server, "gone")[0] == 200
        shutil.rmtree(tmp_path / "a4")
        assert ask(open_server, "gone", "ROMEO:")[0] == 404
        text += "".join(json.loads(event)["choices"][0]["text"] for event in events if event != "[DONE]")
    assert text == expected
    assert metric(open_server, "folio_adapters_held") == 0


def test_loads_and_unloads_under_load(open_server, folders, alone):
    """Requests use loaded adapters while others are loaded and unloaded. A request for an unloaded adapter gets 404."""
    for i in range(8):
        assert load(open_server, f"a{i}", folders[f"a{i}"])[0] == 200
    for name in folders:
        alone(name, "ROMEO:")
    n_away = []

    def client(i):
        draw = random.Random(i)
        for _ in range(25):
            if i < 4:  # these clients load and unload adapters
                name = f"a{8 + draw.randrange(4)}"
                status = (load(open_server, name, folders[name]) if draw.random() < 0.6 else unload(open_server, name))[0]
                assert status in (200, 400, 404)
                continue
            name = f"a{draw.randrange(12)}"
            n = draw.randint(1, TOKENS)
            status, answer = ask(open_server, name, "ROMEO:", n)
            if status == 404 and int(name[1:]) >= 8:
                n_away.append(name)
                continue
            assert status == 200 and answer["choices"][0]["text"] == alone(name, "ROMEO:")[:n], (name, answer)

    at_once(client)
    for i in range(12):
        unload(open_server, f"a{i}")
    assert metric(open_server, "folio_adapters_held") == metric(open_server, "folio_adapter_bytes") == 0


def test_loading_requires_the_flag(served, folders):
    for status, body in (load(served, "new", folders["a1"]), unload(served, "a1")):
        assert status == 403 and "--allow-adapter-loading" in body["error"]["message"]


def test_shutdown_while_loading_adapters(start, tmp_path):
    """At shutdown, the server finishes reading the adapters that it has begun to read, and discards them. In a build
    with AddressSanitizer, the test also detects a use of freed memory."""
    folder = write_adapter(tmp_path / "large", GOLDEN, 1, rank=256)
    server = start("--allow-adapter-loading", "--grace", "0")
    wires = [Wire(server) for _ in range(200)]
    for i, wire in enumerate(wires):
        wire.request("POST", "/v1/load_lora_adapter", {"lora_name": f"n{i}", "lora_path": str(folder)})
    assert wires[0].answer()[0] == 200  # most other requests have not been read yet
    server.process.send_signal(signal.SIGTERM)
    for wire in wires:
        wire.socket.close()
    assert server.process.wait(60) == 0


def test_missing_folder_fails_only_its_request(start, folders, alone, tmp_path):
    for name in ("a4", "a5"):
        shutil.copytree(folders[name], tmp_path / name)
    server = start("--adapter-memory", str(bytes_of(folders["a4"])),
                   *flags_of({name: tmp_path / name for name in ("a4", "a5")}))
    shutil.rmtree(tmp_path / "a5")
    status, answer = ask(server, "a5", "ROMEO:")
    assert status == 500 and "a5" in answer["error"]["message"]
    assert ask(server, "a4", "ROMEO:")[1]["choices"][0]["text"] == alone("a4", "ROMEO:")
    assert ask(server, "", "ROMEO:")[1]["choices"][0]["text"] == alone("", "ROMEO:")


@pytest.mark.parametrize("flags, code, part", [
    (["--adapter", "nameless"], WRONG_USAGE, "NAME=PATH"), (["--adapter", "=x"], WRONG_USAGE, "NAME=PATH"),
    (["--adapter", "a=x:loud"], WRONG_USAGE, "loud"), (["--adapter", "a=/nowhere"], FAILED, "/nowhere"),
    (["--adapter", "a b=/nowhere"], FAILED, "a b"), (["--adapter-memory", "much"], WRONG_USAGE, "much")])
def test_invalid_flags_are_rejected(flags, code, part):
    assert_refused(run("serve", "-m", GOLDEN, "--port", 0, *flags), code, part)


def test_names_and_memory_are_validated(folders):
    def refused(part, *flags):
        assert_refused(run("serve", "-m", GOLDEN, "--name", "golden", "--port", 0, *flags), FAILED, part)

    refused("the model itself", "--adapter", f"golden={folders['a1']}")
    refused("--adapter-memory", "--adapter", f"a={folders['a4']}", "--adapter-memory", "1K")
