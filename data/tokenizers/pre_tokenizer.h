// Splits a text into the words of byte-level BPE; no token crosses the end of a word. Each kind is a published regular
// expression, written as a scanner: std::regex has no Unicode classes, is slow, and overflows the stack on
// long words.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace folio::data {

enum class PreTokenizer {
  /// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  /// (https://github.com/openai/gpt-2/blob/master/src/encoder.py)
  Gpt2,
  /// Each \p{N} is a word; the stretches between them are split as by GPT-2, each alone (SmolLM2, StarCoder).
  Digits,
  /// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
  /// ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
  /// (https://github.com/meta-llama/llama3/blob/main/llama/tokenizer.py)
  Llama3,
  /// The same with \p{N} for \p{N}{1,3}: each number is a word.
  /// (https://huggingface.co/Qwen/Qwen2-0.5B/blob/main/tokenizer.json)
  Qwen2,
  /// Words of letters are [A a]: capitals, then small letters, and behind them a contraction.
  /// [^\r\n\p{L}\p{N}]?U*L+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?U+L*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|
  /// ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+ with U = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and
  /// L = [\p{Ll}\p{Lm}\p{Lo}\p{M}] (o200k_base:
  /// https://github.com/openai/tiktoken/blob/main/tiktoken_ext/openai_public.py)
  O200k,
  /// The same without contractions, and with \p{N} for \p{N}{1,3}.
  /// (https://huggingface.co/mistralai/Mistral-Nemo-Base-2407/blob/main/tokenizer.json)
  Tekken,
};

/// The end of the word that begins at `at` < text.size(), which is 0 or the end of another word. A byte that is not
/// UTF-8 counts as a symbol, like U+FFFD.
[[nodiscard]] size_t word_end(PreTokenizer kind, std::string_view text, size_t at);

/// The next place at or behind `from` where a word of every pre-tokenizer ends, whatever stands around it: behind a
/// line break and before a visible ASCII character but a slash. The end of the text if there is none.
[[nodiscard]] size_t word_border(std::string_view text, size_t from);

/// Calls take(part) for parts of a text that end at a word_border(), each of at least `n_bytes` but the last.
template <typename Take>
void for_parts(std::string_view text, size_t n_bytes, Take&& take) {
  while (!text.empty()) {
    const size_t end = word_border(text, std::min(n_bytes, text.size()));
    take(text.substr(0, end));
    text.remove_prefix(end);
  }
}

/// A value of GGUF's tokenizer.ggml.pre, and what it implies in llama.cpp.
struct PreTokenizerName {
  std::string_view name;
  PreTokenizer kind;
  bool ignore_merges = false;  ///< a word that is a token is not merged
  bool add_bos = false;        ///< if tokenizer.ggml.add_bos_token is missing
  bool nfc = false;            ///< the model's own tokenizer normalizes the text before; llama.cpp does not
};

/// Throws core::Error, prefixed with `where`, that lists the known names if `name` is unknown.
[[nodiscard]] const PreTokenizerName& pre_tokenizer_named(std::string_view name, const std::string& where);

/// The first name with these properties, or null.
[[nodiscard]] const PreTokenizerName* name_of(PreTokenizer kind, bool ignore_merges, bool nfc);

}  // namespace folio::data
