"""Tests GGUF models that the gguf package split into several files: they are read like one, and errors are clear."""

import gguf
import gguf_copies
import pytest
import random_models
from families_test import IDS, by_transformers, log_probabilities
from support import FAILED, assert_refused, run, succeed


def split(whole, folder, n_tensors):
    gguf_copies.copy(whole, folder / "m.gguf", split_max_tensors=n_tensors)
    return sorted(folder.glob("m-*.gguf"))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("split")
    made = random_models.make("qwen3_moe")
    succeed("export", random_models.write(made, folder / "hf"), "--out", folder / "whole.gguf", "--type", "f16")
    return made, folder / "whole.gguf"


def test_split_model_matches_a_single_file(model, tmp_path):
    made, whole = model
    parts = split(whole, tmp_path, 10)
    assert len(parts) == 4 and parts[0].name == "m-00001-of-00004.gguf"
    assert (log_probabilities(parts[0], IDS) == log_probabilities(whole, IDS)).all()
    assert (log_probabilities(parts[0], IDS) - by_transformers(made, IDS)).abs().max() < 0.1
    succeed("export", parts[0], "--out", tmp_path / "again.gguf")
    again, first = gguf.GGUFReader(tmp_path / "again.gguf"), gguf.GGUFReader(whole)
    assert [(t.name, t.data.tobytes()) for t in again.tensors] == [(t.name, t.data.tobytes()) for t in first.tensors]
    assert "split.count" not in again.fields


def test_errors_name_the_problem(model, tmp_path):
    parts = split(model[1], tmp_path, 14)
    assert len(parts) == 3
    refused = lambda path, *why: assert_refused(run("inspect", path), FAILED, *why)  # noqa: E731
    refused(parts[1], "m-00002-of-00003.gguf is part 2 of 3; use the first part, whose name ends with -00001-of-00003.gguf")
    renamed = tmp_path / "renamed.gguf"
    renamed.write_bytes(parts[0].read_bytes())
    refused(renamed, "the name of the first of 3 parts must end with -00001-of-00003.gguf")
    bytes_of = {part: part.read_bytes() for part in parts}
    parts[1].unlink()
    refused(parts[0], "m-00002-of-00003.gguf is missing, one of 3 parts; put all parts into one folder")
    parts[1].write_bytes(bytes_of[parts[2]])
    refused(parts[0], "m-00002-of-00003.gguf: the name indicates part 2 of 3, but the metadata differs")
    parts[1].write_bytes(bytes_of[parts[1]][:100])
    refused(parts[0], "m-00002-of-00003.gguf", "the file is damaged or not a GGUF")
