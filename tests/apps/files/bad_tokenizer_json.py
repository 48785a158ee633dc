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
    ("model that is a string", "is missing", put(at(TOKENIZER, "model"), "BPE")),
    ("huge id", "the vocabulary's IDs are not 0 to 5", put(at(*VOCAB, "a"), 2**64 - 1)),
    ("end of text that is not last", "the last token of a character vocabulary must be <|endoftext|>",
     both(put(at(*VOCAB, "a"), 5), put(at(*VOCAB, sound.END), 2))),
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
for name, phrase, change in [
    ("another model", "a model of type Unigram is not supported", put(at(TOKENIZER, "model", "type"), "Unigram")),
    ("added token with a huge id", "the vocabulary's IDs are not", put(at(TOKENIZER, "added_tokens", 0, "id"), 10**18)),
    ("piece of two megabytes", "piece 263 has 2000000 bytes", renamed("b", "b" * 2_000_000)),
]:
    pieces.add(name, phrase, change)
pieces.add("more pieces than the model", "the tokenizer has 265 tokens, but the model has 264", put(at(*VOCAB, "c"), 264),
           file="hf", inspect=PASSES)

configs = Kinds("tokenizer_config.json", sentencepiece, write, CONFIG, SHOWS)
for name, phrase, change in [
    *missing(CONFIG), *[kind for kind in bad_json(CONFIG) if kind[0] != "list in place of the object"],
    ("list in place of the object", "eos_token is missing or not a string", raw(CONFIG, b"[]")),
    ("eos_token that is an object without its text", "eos_token is missing or not a string",
     put(at(CONFIG, "eos_token"), {"lstrip": False})),
]:
    configs.add(name, phrase, change)

KINDS = [*characters.all, *pieces.all, *configs.all]
