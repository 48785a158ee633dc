"""Tests that objects can be released on any thread, that forked children exit, and that work releases the GIL."""

import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest
import support

import folio
from folio import fast_llm
from folio.faster_transformer import Llama
from stall import HANG

HEAD = """
import asyncio, folio, gc, multiprocessing, os, signal, sys, threading
from folio import fast_llm
from folio.faster_transformer import Llama
from folio.service import Service
path = sys.argv[1]
def exit_codes(*pids):
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
"""


def python(golden_gguf, code):
    """Runs the code in a new process, which must end with 0 and print no error. Returns its stdout. On a timeout, ends the
    process and its children."""
    process = subprocess.Popen([sys.executable, "-c", HEAD + textwrap.dedent(code), str(golden_gguf)], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    try:
        out, errors = process.communicate(timeout=HANG)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        pytest.fail(f"hangs: {process.communicate()}")
    assert process.returncode == 0 and errors == "", f"{process.returncode}: {out}{errors}"
    return out


@pytest.mark.parametrize("leave", [
    "async for _ in model.astream(prompts, max_tokens=200): break",
    "await asyncio.gather(*(anext(model.astream(prompts, max_tokens=200)) for _ in range(8)))",
    "reply = Service(model).request('POST', '/v1/completions', body=body); await reply.start()",
    "model._submit(False, {'prompt': prompts, 'max_tokens': 200}, pieces=True, notifier=folio.model._events().notifier)",
    "asyncio.create_task(model.agenerate(prompts * 100, max_tokens=200)); await asyncio.sleep(0)",
])
def test_model_may_be_dropped_while_streaming(golden_gguf, leave):
    python(golden_gguf, f"""
        prompts = ["ROMEO: " * 8] * 16
        body = b'{{"prompt": "ROMEO:", "max_tokens": 200, "n": 50, "stream": true}}'
        async def use():
            model = folio.Model(path, threads=1)
            {leave}
            del model
            await asyncio.sleep(0)
        for _ in range(5):
            asyncio.run(use())
            gc.collect()
    """)


def test_model_may_be_dropped_on_a_thread_or_in_a_loop(golden_gguf):
    python(golden_gguf, """
        async def main():
            for _ in range(5):
                model = folio.Model(path, threads=1)
                async for _ in model.astream("ROMEO:", max_tokens=200):
                    break
                held = [model]
                del model
                thread = threading.Thread(target=held.clear)
                thread.start()
                thread.join()
        asyncio.run(main())
    """)


def test_models_of_a_loop_share_a_descriptor(golden_gguf):
    python(golden_gguf, """
        async def main():
            counts = set()
            for _ in range(3):
                with folio.Model(path, threads=1) as model:
                    await model.agenerate("a", max_tokens=2)
                    counts.add(len(os.listdir("/proc/self/fd")))
            assert len(counts) == 1, counts
        asyncio.run(main())
    """)


def test_concurrent_close(golden_gguf):
    python(golden_gguf, """
        for _ in range(5):
            model = folio.Model(path, threads=1)
            stream = model.stream(["ROMEO:"] * 100, max_tokens=200)
            next(stream)
            threads = [threading.Thread(target=model.close) for _ in range(8)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            assert model.closed
    """)


BUSY = """
def busy(model):
    def work():
        try:
            while True:
                model.generate(["ROMEO:"] * 50, max_tokens=200)
        except folio.Error:
            pass
    for _ in range(4):
        threading.Thread(target=work, daemon=True).start()
    next(model.stream("ROMEO:", max_tokens=200))
"""


@pytest.mark.parametrize("how", [
    "sys.exit(7)",
    "raise SystemExit(7)",
    "model.close(); del model; gc.collect(); sys.exit(7)",
    "next_model = folio.Model(path, threads=1); next_model.complete('a', max_tokens=3); sys.exit(7)",
    "folio.model._close_all(); os._exit(7)",
])
def test_forked_child_exits(golden_gguf, how):
    """A forked child exits with its own exit code and does not hang. The test forks several children, since each fork
    may find the other threads in a different state."""
    python(golden_gguf, BUSY + textwrap.dedent(f"""
        model = folio.Model(path, threads=1)
        busy(model)
        children = []
        for _ in range(5):
            pid = os.fork()
            if pid == 0:
                {how}
            children.append(pid)
        assert exit_codes(*children) == [7] * 5
        model.close()
    """))


def test_multiprocessing_process_exits(golden_gguf):
    python(golden_gguf, BUSY + textwrap.dedent("""
        model = folio.Model(path, threads=1)
        busy(model)
        def work():
            assert "Model" in repr(model)
        fork = multiprocessing.get_context("fork")
        processes = [fork.Process(target=work) for _ in range(5)]
        for process in processes: process.start()
        for process in processes: process.join()
        assert [process.exitcode for process in processes] == [0] * 5
        with fork.Pool(2) as pool:
            assert pool.map(len, ["a", "bc"]) == [1, 2]
    """))


def test_calls_in_a_forked_child_are_runtime_errors(golden_gguf):
    python(golden_gguf, BUSY + textwrap.dedent("""
        model = folio.Model(path, threads=1)
        llama = Llama(path, threads=1)
        inputs = {"input_ids": [[1, 2]], "input_lengths": [2], "output_seq_len": 4}
        outputs = llama.outputs(inputs)
        llama.forward(outputs, inputs)
        service = Service(model)
        busy(model)
        stream = model.stream("ROMEO:", max_tokens=200)
        next(stream)
        def request():
            return service.request("POST", "/v1/completions", body=b'{"prompt": "a", "stream": true, "max_tokens": 200}')
        reply = request()
        assert reply.status == 200
        adapter = fast_llm.model(model)
        handle = adapter.launch_response("ROMEO:")
        def fetch():
            try:
                while adapter.fetch_response(handle) != -1: pass
            except folio.Error: pass  # the model is closed
        threading.Thread(target=fetch, daemon=True).start()
        def complete():
            try:
                while True: model.complete("a", max_tokens=3)
            except folio.Error: pass  # the model is closed
        threading.Thread(target=complete, daemon=True).start()

        async def awaits():
            return await model.agenerate("a")
        async def iterates():
            return [piece async for piece in model.astream("a")]
        async def starts():
            return await request().start()
        async def waits():
            return await reply.start()
        uses = [
            lambda: model.generate("a"), lambda: next(stream), lambda: list(model.stream("a")), lambda: model.chat("a"),
            lambda: asyncio.run(awaits()), lambda: asyncio.run(iterates()), lambda: asyncio.run(starts()),
            lambda: asyncio.run(waits()), lambda: model.beam("a", 2), lambda: model.complete("a"),
            lambda: model.score("ab"), lambda: model.logits([1]), lambda: model.trace([1]), lambda: model.attention([1], 0),
            lambda: model.explain("a"),
            lambda: model.tensors, lambda: model.tensor("token_embd.weight"), lambda: model.statistics,
            lambda: model.tokenizer.encode("a"), lambda: model.tokenizer.decode([1]), lambda: model.tokenizer.token_bytes(1),
            lambda: model.tokenizer.apply_chat_template([]), request, lambda: Service(model), lambda: reply.status,
            lambda: reply.headers, lambda: reply.read(), lambda: adapter.response("a"),
            lambda: adapter.fetch_response(handle), lambda: adapter.launch_response("a"), lambda: adapter.encode("a"),
            lambda: llama.initialize(), lambda: llama.forward(outputs, inputs), lambda: llama.freeBuffer(),
            lambda: llama.has_buffer, lambda: llama.vocab_size, lambda: llama.end_tokens, lambda: llama.statistics(),
            lambda: llama.allocateBuffer(1, 1, 4, 2)]
        def check():
            for i, use in enumerate(uses):
                try:
                    use()
                except RuntimeError as error:
                    assert isinstance(error, folio.Error) and "forked" in str(error), (i, error)
                else:
                    raise AssertionError(f"use {i} raised nothing")
            for end in (stream.close, reply.close, model.close, adapter.release_memory): end()
            assert "Model" in repr(model) and model.closed
        children = []
        for _ in range(5):
            pid = os.fork()
            if pid == 0:
                check()
                sys.exit(7)
            children.append(pid)
        assert exit_codes(*children) == [7] * 5
        model.close()
    """))


def test_a_signal_handler_may_fork(golden_gguf):
    python(golden_gguf, """
        model = folio.Model(path, threads=1)
        children = []
        def fork(*_):
            pid = os.fork()
            children.append(pid)
            if pid == 0:
                for _ in range(3): signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        signal.signal(signal.SIGUSR1, fork)
        threading.Thread(target=lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
        try:
            while not children: model.generate(["ROMEO:"] * 50, max_tokens=200)
            model.statistics
        except RuntimeError as error:
            assert "forked" in str(error) and children == [0]
            sys.exit(7)
        assert children[0] > 0 and exit_codes(*children) == [7]
    """)


@pytest.fixture
def only_released():
    """Makes Python switch threads only where code releases the GIL."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(10**5)
    yield
    sys.setswitchinterval(before)


TEXT = support.TEXT * 20


@pytest.mark.parametrize("call", [
    lambda model: model.tokenizer.encode(TEXT), lambda model: model.tokenizer.encode(TEXT, prefix=True),
    lambda model: model.tokenizer.decode([1] * 20_000), lambda model: model.tensor("token_embd.weight"),
    lambda model: model.tensors, lambda model: fast_llm.model(model).encode(TEXT),
    lambda model: fast_llm.model(model).make_input(TEXT, 1, TEXT), lambda model: model.logits([1, 2]),
    lambda model: fast_llm.model(model).make_history(TEXT, 1, TEXT, TEXT), lambda model: model.score("ab"),
    lambda model: folio.Model(model.about["path"], threads=1).close(),
    lambda model: Llama(model.about["path"], threads=1), lambda model: model.generate("a", max_tokens=1, regex="[a-z]{9}")])
def test_work_releases_the_gil(model, only_released, call):
    """Another thread that waits for the GIL must run during one of many calls."""
    started, go, ran = threading.Event(), threading.Lock(), []
    go.acquire()

    def wait():
        started.set()
        with go:
            ran.append(True)

    thread = threading.Thread(target=wait)
    thread.start()
    started.wait()
    go.release()
    for _ in range(10_000):
        call(model)
        if ran:
            break
    reached = bool(ran)
    thread.join()
    assert reached
