// Cuts a text into the words that byte-level BPE works on: no token reaches over the end of one. Each kind is a
// published regular expression, here a scanner: std::regex knows no Unicode, is slow, and its recursion overflows on
// long words.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace folio::data {

enum class PreTokenizer {
  /// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  /// (https://github.com/openai/gpt-2/blob/master/src/encoder.py)
  Gpt2,
  /// Each \p{N} is a word; between them GPT-2's, which doesn't see across (SmolLM2, StarCoder).
  Digits,
  /// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
  /// ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
  /// (https://github.com/meta-llama/llama3/blob/main/llama/tokenizer.py)
  Llama3,
};

/// The end of the word that begins at `at` < text.size(), itself the end of a word or 0. A byte that is no UTF-8 counts
/// as a symbol, as U+FFFD does.
[[nodiscard]] size_t word_end(PreTokenizer kind, std::string_view text, size_t at);

/// A name that GGUF's tokenizer.ggml.pre has for a pre-tokenizer, and what llama.cpp takes it to say besides.
struct PreTokenizerName {
  std::string_view name;
  PreTokenizer kind;
  bool ignore_merges = false;  ///< a word that is a token needs no merges
  bool add_bos = false;        ///< where tokenizer.ggml.add_bos_token is missing
};

/// Throws core::Error that begins with `where` and lists the known names if `name` is none of them.
[[nodiscard]] const PreTokenizerName& pre_tokenizer_named(std::string_view name, const std::string& where);

/// The first name that says this, or null.
[[nodiscard]] const PreTokenizerName* name_of(PreTokenizer kind, bool ignore_merges);

}  // namespace folio::data
