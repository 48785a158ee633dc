"""Compares folio.runs() and folio.Run with the files of a training run. Also runs python/examples/look_inside.py."""

import json
import runpy
import subprocess
import sys
import xml.etree.ElementTree

import numpy as np
import pytest
import support

import folio


SHAPE = support.LEARNING_RUN[:support.LEARNING_RUN.index("--steps")]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    if not (support.BUILD / "train").exists():
        pytest.skip("this build has no trainer")
    home = tmp_path_factory.mktemp("home")
    text = home / "text.txt"
    text.write_text("ROMEO:\nWhat light through yonder JULIET KING RICHARD III First Citizen\n" * 40 + support.TEXT,
                    encoding="utf-8")
    for name in ("first", "second"):
        support.succeed("train", text, "--out", home / "runs" / name, *SHAPE, "--steps", 60, "--eval-every", 20,
                        "--lr", "1e-2", "--warmup-steps", 5, "--threads", 1, home=home)
    return home


def test_log_of_a_run(home, monkeypatch):
    monkeypatch.setenv("FOLIO_HOME", str(home))
    assert [run.name for run in folio.runs()] == ["first", "second"] == [run.name for run in folio.runs(home)]
    run = folio.runs()[-1]
    lines = [json.loads(line) for line in (run.path / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    assert list(run.log["step"]) == [line["step"] for line in lines] and run.log["step"].dtype == np.int64
    assert list(run.log["loss"]) == [line["loss"] for line in lines]
    steps, losses = run.curve("val_loss")
    assert list(zip(steps, losses)) == [(line["step"], line["val_loss"]) for line in lines if "val_loss" in line]
    assert len(steps) == 3 and np.isnan(run.log["val_loss"]).sum() == len(lines) - 3
    assert run.config["steps"] == 60 and run.config["optimizer"] == "adamw" and run.config["tie-embeddings"] is True
    with run.model(threads=1) as model:
        text = model.generate("ROMEO:", max_tokens=20, seed=1)
    with folio.Model(run.path, threads=1) as model:
        assert model.generate("ROMEO:", max_tokens=20, seed=1) == text
        assert model.about["name"] == "second"


def test_missing_run_gives_one_line(home, tmp_path):
    with pytest.raises(folio.Error, match="no folder of a run"):
        folio.Run(tmp_path)
    run = folio.Run(home / "runs" / "first")
    with pytest.raises(folio.Error, match="its log has no number 'accuracy'; it has step, tokens, loss"):
        run.curve("accuracy")
    (tmp_path / "log.jsonl").write_text('{"step": 1}\n{"step": \n', encoding="utf-8")
    with pytest.raises(folio.Error, match="log.jsonl:2: this line is no JSON object"):
        folio.Run(tmp_path).log
    for last, steps in (b'{"step": 2', [1]), (b'{"sample": "\xc3', [1]), (b'{"step": 2}', [1, 2]):  # e.g. of a killed run
        (tmp_path / "log.jsonl").write_bytes(b'{"step": 1}\n' + last)
        assert list(folio.Run(tmp_path).log["step"]) == steps


def test_look_inside_example_draws_pictures(home, tmp_path):
    walk = support.ROOT / "python" / "examples" / "look_inside.py"
    out = tmp_path / "pictures"
    done = subprocess.run([sys.executable, walk, home / "runs" / "second", "--out", out], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    texts = {}
    for name in ("loss", "attention", "logit_lens", "texts"):
        root = xml.etree.ElementTree.parse(out / f"{name}.svg").getroot()
        texts[name] = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert any(text.startswith("val_loss ") for text in texts["loss"])
    assert texts["attention"][-1] == "layer 1, head 3"
    assert "the embedding" in texts["logit_lens"] and "layer 1" in texts["logit_lens"]
    assert "ROMEO:" in texts["texts"]
    xml.etree.ElementTree.fromstring(runpy.run_path(walk)["label"](0, 0, "a\x00\x1b<"))
    (tmp_path / "log.jsonl").touch()
    done = subprocess.run([sys.executable, walk, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "its log has no lines yet" in done.stderr
