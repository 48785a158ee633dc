"""Lists bad vocabularies of Hugging Face directories: defects in tokenizer.json and tokenizer_config.json."""

import sound
from bad_hugging_face import at, bad_json, missing, put, raw, sentencepiece, single, without, write
from kinds import PASSES, SHOWS, Kinds

TOKENIZER, CONFIG = "tokenizer.json", "tokenizer_config.json"
VOCAB = (TOKENIZER, "model", "vocab")


def renamed(old, new):
    """Returns a change that renames a token of the vocabulary and keeps its id."""
    def change(m):
        vocab = m.files[TOKENIZER]["model"]["vocab"]
        vocab[new] = vocab.pop(old)
    return change


def both(*changes):
    def change(m):
        for c in changes:
            c(m)
    return change


characters = Kinds("character tokenizer.json", single, write, TOKENIZER, SHOWS)
for name, phrase, change in [
    *missing(TOKENIZER), *bad_json(TOKENIZER),
    ("no model", '"model" is missing', without(at(TOKENIZER, "model"))),
    ("model that is a string", "is missing", put(at(TOKENIZER, "model"), "BPE")),
    ("no vocabulary", '"vocab" is missing', without(at(*VOCAB))),
    ("vocabulary that is a list", "not a character tokenizer", put(at(*VOCAB), ["a", "b"])),
    ("empty vocabulary", "the last token of a character vocabulary must be <|endoftext|>", put(at(*VOCAB), {})),
    ("negative id", "the vocabulary's IDs are not 0 to 5", put(at(*VOCAB, "a"), -1)),
    ("id past the end", "the vocabulary's IDs are not 0 to 5", put(at(*VOCAB, "a"), 6)),
    ("huge id", "the vocabulary's IDs are not 0 to 5", put(at(*VOCAB, "a"), 2**64 - 1)),
    ("id twice", "the vocabulary's IDs are not 0 to 5", put(at(*VOCAB, "a"), 3)),
    ("id as a string", "the vocabulary's IDs are not 0 to 5", put(at(*VOCAB, "a"), "2")),
    ("end of text that is not last", "the last token of a character vocabulary must be <|endoftext|>",
     both(put(at(*VOCAB, "a"), 5), put(at(*VOCAB, sound.END), 2))),
    ("token of two characters", 'token 2 ("aa") is not one character', renamed("a", "aa")),
    ("empty token", 'token 2 ("") is not one character', renamed("a", "")),
]:
    characters.add(name, phrase, change)
for name, phrase, change in [
    ("fewer tokens than the model", "the tokenizer has 5 tokens, but the model has 6",
     put(at(*VOCAB), sound.character_json(sound.CHARACTERS[:-1])["model"]["vocab"])),
    ("more tokens than the model", "the tokenizer has 7 tokens, but the model has 6",
     put(at(*VOCAB), sound.character_json([*sound.CHARACTERS, "c"])["model"]["vocab"])),
]:
    characters.add(name, phrase, change, file="hf", inspect=PASSES)

pieces = Kinds("SentencePiece tokenizer.json", sentencepiece, write, TOKENIZER, SHOWS)
MERGES = (TOKENIZER, "model", "merges")
for name, phrase, change in [
    ("another model", "a model of type Unigram is not supported", put(at(TOKENIZER, "model", "type"), "Unigram")),
    ("dropout", "dropout = 0.1 is not supported", put(at(TOKENIZER, "model", "dropout"), 0.1)),
    ("ignore_merges", "ignore_merges is not supported", put(at(TOKENIZER, "model", "ignore_merges"), True)),
    ("pre-tokenizer", "the pre-tokenizer", put(at(TOKENIZER, "pre_tokenizer"), {"type": "ByteLevel"})),
    ("no normalizer", "the normalizer null is not supported", put(at(TOKENIZER, "normalizer"), None)),
    ("another decoder", "the decoder", put(at(TOKENIZER, "decoder"), {"type": "WordPiece"})),
    ("another post-processor", "the post-processor", put(at(TOKENIZER, "post_processor"), {"type": "Roberta"})),
    ("vocabulary that is a list", "the vocabulary is not an object", put(at(*VOCAB), [])),
    ("id past the end", "the vocabulary's IDs are not 0 to 263", put(at(*VOCAB, "b"), 264)),
    ("id twice", "the vocabulary's IDs are not 0 to 263", put(at(*VOCAB, "b"), 262)),
    ("id as a float", "the vocabulary's IDs are not 0 to 263", put(at(*VOCAB, "b"), 263.0)),
    ("merges that are no list", '"merges" has a value of the wrong type', put(at(*MERGES), {"a": "b"})),
    ("merge without a space", 'the merge "ab" has no space', put(at(*MERGES), ["▁ a", "ab"])),
    ("merge that is a number", "the merge 7 is not a pair of pieces", put(at(*MERGES), ["▁ a", 7])),
    ("merge of three", "is not a pair of pieces", put(at(*MERGES), ["▁ a", ["a", "b", "c"]])),
    ("merge of what is no piece", "does not join two pieces into a third, or occurs twice", put(at(*MERGES), ["▁ a", "a b", "a c"])),
    ("merge twice", "does not join two pieces into a third, or occurs twice", put(at(*MERGES), ["▁ a", "a b", "a b"])),
    ("merge that is missing", 'BPE that forms "ab" from 0 of', put(at(*MERGES), ["▁ a"])),
    ("added tokens that are no list", '"added_tokens" has a value of the wrong type', put(at(TOKENIZER, "added_tokens"), {})),
    ("added token without its text", '"content" is missing', put(at(TOKENIZER, "added_tokens", 0), {"id": 0})),
    ("added token that is a string", '"content" is missing', put(at(TOKENIZER, "added_tokens", 0), "<unk>")),
    ("added token with another's id", "the vocabulary's IDs are not 0 to 263",
     put(at(TOKENIZER, "added_tokens", 0, "id"), 9)),
    ("added token with a huge id", "the vocabulary's IDs are not", put(at(TOKENIZER, "added_tokens", 0, "id"), 10**18)),
    ("unknown token that is no piece", 'token "[UNK]" is not in the vocabulary',
     put(at(TOKENIZER, "model", "unk_token"), "[UNK]")),
    ("unknown token that is a number", "unk_token is not a string", put(at(TOKENIZER, "model", "unk_token"), 0)),
    ("empty piece", "piece 263 has 0 bytes", renamed("b", "")),
    ("piece of two megabytes", "piece 263 has 2000000 bytes", renamed("b", "b" * 2_000_000)),
    ("no piece for the space", "the space", both(renamed("▁", "zz"), put(at(*MERGES), ["a b"]))),
]:
    pieces.add(name, phrase, change)
pieces.add("more pieces than the model", "the tokenizer has 265 tokens, but the model has 264", put(at(*VOCAB, "c"), 264),
           file="hf", inspect=PASSES)

configs = Kinds("tokenizer_config.json", sentencepiece, write, CONFIG, SHOWS)
for name, phrase, change in [
    *missing(CONFIG), *[kind for kind in bad_json(CONFIG) if kind[0] != "list in place of the object"],
    ("list in place of the object", "eos_token is missing or not a string", raw(CONFIG, b"[]")),
    ("no bos_token", "bos_token is missing or not a string", without(at(CONFIG, "bos_token"))),
    ("eos_token that is a number", "eos_token is missing or not a string", put(at(CONFIG, "eos_token"), 2)),
    ("bos_token that is no piece", 'token "[BOS]" is not in the vocabulary', put(at(CONFIG, "bos_token"), "[BOS]")),
    ("eos_token that is an object without its text", "eos_token is missing or not a string",
     put(at(CONFIG, "eos_token"), {"lstrip": False})),
]:
    configs.add(name, phrase, change)

KINDS = [*characters.all, *pieces.all, *configs.all]
