"""Tests the program chat on a terminal and with input from a pipe: turns, commands, Ctrl-C, one-line errors."""

import json
import os
import pty
import re
import signal
import threading

import pytest

from chat_model import PIECES, write_chat_model
from published_templates import KNOWN, PHI35
from support import (BUILD, FAILED, GOLDEN, HANG, INTERRUPTED, WRONG_USAGE, assert_refused, environment, one_json, run,
                     start, succeed)

NAMES = ["chatml", "gemma", "llama2", "llama3", "zephyr"]
COSTS = re.compile(r"\[(\d+) prompt tokens computed, (\d+) cached; (\d+) generated")
START = next(i for i, piece in enumerate(PIECES) if piece[0] == "<|im_start|>")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_chat_model(tmp_path_factory.mktemp("chat") / "chat.gguf")


@pytest.fixture(scope="module")
def endless(tmp_path_factory):
    return write_chat_model(tmp_path_factory.mktemp("endless") / "endless.gguf", context=1 << 20)


def talk(*args, lines):
    """Runs chat with the lines as input, each a turn or a command. Returns (exit code, stdout, stderr)."""
    process = start("chat", *args)
    out, err = process.communicate("".join(line + "\n" for line in lines).encode(), timeout=HANG)
    return process.returncode, out.decode(errors="replace"), err.decode()


def one_shot(model, *args):
    return one_json(succeed("chat", "--json", "-m", model, *args).stdout)


def test_single_turn_prints_only_the_answer(model):
    flags = ["-p", "hello", "-n", 20, "--temp", 0]
    answer = one_shot(model, *flags)
    done = succeed("chat", "-m", model, *flags)
    assert done.stdout == answer["text"] + "\n"
    assert f"[{len(answer['prompt_tokens'])} prompt tokens computed, 0 cached" in done.stderr
    assert answer["finish_reason"] == "length" and len(answer["tokens"]) == 20
    assert answer["prefill_tokens_per_s"] > 0 and answer["decode_tokens_per_s"] > 0 and "seed" in answer


def test_history_and_reset(model):
    flags = ["-m", model, "-n", 12, "-s", 1, "--stop", "\n"]
    _, out, err = talk(*flags, lines=["hello\r", "world", "/reset\r", "hello", "", "world"])
    answers = out.split("\n")
    assert answers[0] == answers[2] and answers[1] == answers[3] and len(answers) == 5
    again = COSTS.findall(err)[2]
    assert int(again[1]) > 0, "what was computed before is still known"
    _, alone, _ = talk(*flags, lines=["world"])
    assert alone != answers[1] + "\n"


def test_save_writes_the_messages(model, tmp_path):
    path = tmp_path / "a chat.json"
    code, out, err = talk("-m", model, "-n", 12, "--system", "bé", "--stop", "\n", lines=["hello", f"/save {path}", "x"])
    assert code == 0 and str(path) in err
    saved = json.loads(path.read_text(encoding="utf-8"))
    assert [m["role"] for m in saved] == ["system", "user", "assistant"]
    assert [m["content"] for m in saved] == ["bé", "hello", out.split("\n")[0]]


def test_errors_end_a_piped_chat(model, tmp_path):
    for lines, part in ([["/save"], "/save"], [["/bogus x"], "/bogus"], [["x" * 600], "/reset"],
                        [[f"/save {tmp_path / 'none' / 'f'}"], "none"]):
        code, out, err = talk("-m", model, lines=lines)
        assert code == FAILED and out == "" and err.count("\n") == 1 and err.startswith("chat: ") and part in err


def test_answers_end_at_the_context(model):
    answer = one_shot(model, "-p", "hello", "-c", 150, "--temp", 0)
    assert answer["finish_reason"] == "length"
    assert len(answer["prompt_tokens"]) + len(answer["tokens"]) == 150
    assert_refused(run("chat", "-m", model, "-p", "hello" * 40, "-c", 150), FAILED, "150", "/reset")


def test_a_model_without_a_template(model, golden_gguf, tmp_path):
    for path in (golden_gguf, GOLDEN):
        assert_refused(run("chat", "-m", path, "-p", "hello"), FAILED, path, "--chat-template", *NAMES)
    broken = write_chat_model(tmp_path / "broken.gguf", template="{% if %}")
    assert_refused(run("chat", "-m", broken, "-p", "hello"), FAILED, broken, "line 1", "--chat-template", *NAMES)
    named = one_shot(broken, "-p", "hello", "-n", 5, "--chat-template", "chatml")
    assert named["prompt_tokens"] == one_shot(model, "-p", "hello", "-n", 5, "--chat-template", "chatml")["prompt_tokens"]
    assert named["prompt_tokens"].count(START) == 2, "by name there is no default system message"


def test_template_from_the_model_or_a_file(model, tmp_path):
    own = write_chat_model(tmp_path / "phi.gguf", template=PHI35)
    file = tmp_path / "phi.jinja"
    file.write_text(PHI35)
    tokens = one_shot(own, "-p", "hello", "-n", 5)["prompt_tokens"]
    assert tokens == one_shot(model, "-p", "hello", "-n", 5, "--chat-template", file)["prompt_tokens"]
    assert START not in tokens
    refusing = write_chat_model(tmp_path / "gemma.gguf", template=KNOWN["Gemma"])
    assert_refused(run("chat", "-m", refusing, "-p", "hello", "--system", "x"), FAILED, refusing, "System role not supported")
    file.write_text("{{ messages[0]['content'] + 1 }}")
    assert_refused(run("chat", "-m", model, "-p", "hello", "--chat-template", file), FAILED, file, "line 1")


def test_wrong_usage(model):
    refused = lambda *flags, parts: assert_refused(run("chat", "-m", model, *flags), WRONG_USAGE, *parts)
    refused("--chat-template", "mistral", parts=["mistral", *NAMES])
    refused("-p", "", parts=["--prompt"])
    refused("--json", parts=["--json", "--prompt"])
    refused("-p", "x", "--stop", "", parts=["--stop"])
    refused("-p", "x", "-n", "0", parts=["--max-tokens"])


# ---- Ctrl-C ----

def test_ctrl_c_interrupts_the_answer_then_the_program(endless, tmp_path):
    process = start("chat", "-m", endless, "--temp", 0)
    process.stdin.write(b"hello\n")
    process.stdin.flush()
    assert process.stdout.read(1), "the answer begins"
    threading.Thread(target=process.stdout.read, daemon=True).start()  # a full pipe would block chat
    process.send_signal(signal.SIGINT)
    assert b"finish_reason interrupted" in process.stderr.readline()
    path = tmp_path / "chat.json"
    process.stdin.write(f"/save {path}\n".encode())
    process.stdin.flush()
    assert process.stderr.readline() == f"{path}: 2 messages\n".encode(), "the program goes on"
    assert [m["role"] for m in json.loads(path.read_text(encoding="utf-8"))] == ["user", "assistant"]
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=HANG) == INTERRUPTED


def test_interrupted_single_turn_exits_with_130(endless):
    process = start("chat", "-m", endless, "--temp", 0, "-p", "hello")
    process.stdin.close()
    assert process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    out = process.stdout.read()
    assert process.wait(timeout=HANG) == INTERRUPTED and out.endswith(b"\n")


def test_interactive_terminal(model):
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(BUILD / "chat", ["chat", "-m", str(model), "-n", "5", "--temp", "0"], environment("/nonexistent"))
    seen = b""

    def until(text):
        nonlocal seen
        while text not in seen:
            seen += os.read(terminal, 4096)
        seen = seen.split(text, 1)[1]

    until(b"/reset")
    until(b"\r\n> ")
    for line, answer in [(b"hello", b"tokens computed"), (b"/bogus", b"unknown command /bogus"), (b"x" * 600, b"/reset"),
                         (b"/help", b"/save FILE")]:
        os.write(terminal, line + b"\n")
        until(answer)
        until(b"\r\n> ")
    os.write(terminal, b"\x04")
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
