"""Helpers for comparisons with peft: models with random adapters, and log probabilities by Folio and by peft."""

import numpy as np
import peft
import torch
from transformers import AutoModelForCausalLM

from support import perplexity


def adapted(model, seed=1, size=0.02, **config):
    """Returns `model`, a module or a directory, with random LoRA adapters. `size` is the standard deviation of the
    matrices B, and `config` has fields of peft's LoraConfig."""
    torch.manual_seed(seed)
    if not isinstance(model, torch.nn.Module):
        model = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    model = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", **config)).eval()
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=size)
    return model


def scores(model, text, *flags):
    """Returns the engine's log probability of each token of a text file except the first."""
    return np.array(perplexity(model, text, "--token-logprobs", *flags)["token_logprobs"])


def token_logprobs(model, ids):
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0].double()
    return torch.log_softmax(logits, -1)[range(len(ids) - 1), ids[1:]].numpy()
