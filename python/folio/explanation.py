"""An explanation of the next tokens of a prompt: arrays, and a page for browsers and notebooks."""

from __future__ import annotations

import html
import json
from typing import Any, Iterator, Mapping

import numpy as np


class Explanation(Mapping[str, np.ndarray]):
    """The arrays of an explanation by name. T is the number of tokens, and a level is 0 for the embedding and l + 1
    after layer l. Returned by Model.explain().

    hook_embed, blocks.0.attn.hook_z, …, logits    activations, as TransformerLens names them (docs/explain.md)
    attention                                      weights: (layers, heads, T, T)
    lens.tokens, lens.probabilities                the 5 likeliest tokens of each level: (levels, T, 5)
    lens.rank, lens.p                              rank and probability of the model's top prediction: (levels, T)
    attribution.token, attribution.logit           explained token, and its logit, the sum of the next five: (T)
    attribution.embedding, attribution.remainder   (T)
    attribution.heads                              (T, layers, heads)
    attribution.attention_bias, attribution.ffn    (T, layers)
    attribution.replaced                           whether an intervention replaced the attention: (T, layers)

    Other values are in the dict json, whose keys docs/explain.md lists. Its numbers are not rounded.
    """

    def __init__(self, arrays: dict[str, np.ndarray], made: Any) -> None:
        self._made = made
        self.json: dict[str, Any] = json.loads(made.json())
        patterns = [f"blocks.{layer}.attn.hook_pattern" for layer in range(self.json["model"]["n_layers"])]
        arrays["attention"] = np.stack([arrays[name] for name in patterns])
        arrays.update(zip(patterns, arrays["attention"]))  # views, so that the weights are not duplicated
        top = np.array([[row["top"] for row in level] for level in self.json["lens"]])
        arrays["lens.tokens"], arrays["lens.probabilities"] = top[..., 0].astype(np.int32), top[..., 1]
        for key in ("rank", "p"):
            arrays[f"lens.{key}"] = np.array([[row[key] for row in level] for level in self.json["lens"]])
        for key in self.json["attribution"][0]:
            arrays[f"attribution.{key}"] = np.array([row[key] for row in self.json["attribution"]])
        self._arrays = arrays

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        return f"Explanation({len(self.json['tokens'])} tokens, {len(self)} arrays)"

    def to_html(self) -> str:
        """Returns the explanation as an HTML page, as build/explain writes it."""
        return self._made.html()

    def _repr_html_(self) -> str:
        return (f'<iframe srcdoc="{html.escape(self.to_html())}" sandbox="allow-scripts" title="Explanation" '
                'style="width: 100%; height: 720px; border: 0"></iframe>')
