"""Compares the module that predicts the token after the next with transformers' MtpModel, on random models."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest
import torch
import transformers

sys.path += [str(pathlib.Path(__file__).resolve().parents[1] / folder) for folder in ("apps", "apps/files")]
import random_models  # noqa: E402
from support import BUILD  # noqa: E402
from transformers.modeling_layers import MtpModel  # noqa: E402

IDS = [3, 1, 4, 1, 5, 2, 0, 3, 5, 4, 2, 2, 1, 0, 5, 3, 3, 0, 1, 4]


def by_transformers(directory):
    """Returns the hidden states [tokens - 1, dim] after the norm of the MTP module, computed by transformers."""
    model = transformers.AutoModelForCausalLM.from_pretrained(directory).eval()
    # transformers finds the MTP weights by name patterns with the layer numbers of published models. In this model, the
    # MTP module is layer 3.
    model._keys_to_ignore_on_load_unexpected = [r"model\.layers\.3.*"]
    model.config.num_mtp_layers = 1
    mtp = MtpModel.from_pretrained(model).eval()
    tokens = torch.tensor([IDS])
    n = len(IDS) - 1
    with torch.no_grad():
        hidden = model.model(tokens[:, :-1]).last_hidden_state
        return mtp.forward_layer(0, hidden, torch.arange(n)[None], None, input_ids=tokens[:, 1:])[0].numpy()


@pytest.mark.parametrize("name", ["llama", "deepseek_v3", "glm4_moe", "youtu"])
def test_hidden_states_equal_those_of_transformers(tmp_path, name):
    directory = random_models.write_ahead(name, tmp_path / "m")
    subprocess.run([BUILD / "tests/ahead_tool", directory, tmp_path / "hidden", *map(str, IDS)], check=True)
    actual = np.fromfile(tmp_path / "hidden", np.float32).reshape(len(IDS) - 1, 32)
    expected = by_transformers(directory)
    assert np.abs(expected).max() > 1
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-4)
