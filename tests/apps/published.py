"""A small model as others publish them: with a byte-level BPE of another text, so that ours has words in pieces."""

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers


def publish(folder, texts, special_tokens, **tokenizer_options):
    """A random Llama with grouped queries, as transformers saves it. `tokenizer_options` name BOS, EOS, …"""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=290, special_tokens=special_tokens, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts, trainer)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **tokenizer_options)
    torch.manual_seed(1)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=len(fast), hidden_size=24, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, rms_norm_eps=1e-6, tie_word_embeddings=False,
        bos_token_id=fast.bos_token_id, eos_token_id=fast.eos_token_id))
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


def loss_by_transformers(model, tokenizer, text):
    """The mean loss of the text's last tenth in windows of 32, as `train` validates."""
    ids = tokenizer(text).input_ids
    validation = ids[int(len(ids) * 0.9 + 1e-6):]
    rows = torch.tensor([validation[at:at + 33] for at in range(0, len(validation) - 32, 32)])
    with torch.no_grad():
        logits = model(rows[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten()).item()
