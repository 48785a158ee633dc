"""Compares the training tokens and labels of conversations with those of TRL's SFTTrainer (assistant_only_loss), as its
collator returns them."""

import json
import pathlib
import sys

import datasets
import pytest
import transformers
from trl import SFTConfig, SFTTrainer

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "data" / "chat"))
from conversations_oracle_test import TAGGED, conversations, ours, small  # noqa: E402, F401


@pytest.mark.parametrize("name", TAGGED)
def test_labels_match_trl(name, small, tmp_path):  # noqa: F811
    published, tagged = TAGGED[name]
    tokenizer, path = small
    tokenizer.chat_template = tagged
    chats = list(conversations())
    (tmp_path / "chats.jsonl").write_text("".join(json.dumps({"messages": chat}) + "\n" for chat in chats))
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1))
    trainer = SFTTrainer(
        model=model, processing_class=tokenizer,
        args=SFTConfig(output_dir=str(tmp_path), assistant_only_loss=True, max_length=None, use_cpu=True, bf16=False,
                       report_to="none"),
        train_dataset=datasets.load_dataset("json", data_files=str(tmp_path / "chats.jsonl"), split="train",
                                            cache_dir=str(tmp_path)))
    batch = trainer.data_collator(list(trainer.train_dataset))
    examples = ours(tmp_path, [(path, published, chats)])[0]
    assert len(examples) == len(batch["labels"]) == len(chats)
    for example, tokens, labels in zip(examples, batch["input_ids"].tolist(), batch["labels"].tolist()):
        n = len(example["tokens"])
        assert tokens[:n] == example["tokens"]
        assert labels[:n] == [token if learned else -100 for token, learned in zip(example["tokens"], example["learned"])]
        assert set(labels[n:]) <= {-100}
