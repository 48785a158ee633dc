// Splits text into the words of byte-level BPE; tokens do not cross the end of a word. Each kind is a published regular
// expression, implemented as a scanner: std::regex has no Unicode classes, is slow, and overflows the stack on long
// words.
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
  /// Each \p{N} is a word; the text between them is split as by Gpt2 (SmolLM2, StarCoder).
  Digits,
  /// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
  /// ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
  /// (https://github.com/meta-llama/llama3/blob/main/llama/tokenizer.py)
  Llama3,
  /// As Llama3, but with \p{N} instead of \p{N}{1,3}: each digit is a word.
  /// (https://huggingface.co/Qwen/Qwen2-0.5B/blob/main/tokenizer.json)
  Qwen2,
  /// A word is uppercase letters followed by lowercase ones, and may end with a contraction.
  /// [^\r\n\p{L}\p{N}]?U*L+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?U+L*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|
  /// ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+ with U = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and
  /// L = [\p{Ll}\p{Lm}\p{Lo}\p{M}] (o200k_base:
  /// https://github.com/openai/tiktoken/blob/main/tiktoken_ext/openai_public.py)
  O200k,
  /// As O200k, but without contractions, and with \p{N} instead of \p{N}{1,3}.
  /// (https://huggingface.co/mistralai/Mistral-Nemo-Base-2407/blob/main/tokenizer.json)
  Tekken,
};

/// Returns the end of the word that begins at `at`, which is 0 or the end of another word and less than text.size().
/// Bytes that are not UTF-8 count as symbols, like U+FFFD.
[[nodiscard]] size_t word_end(PreTokenizer kind, std::string_view text, size_t at);

/// Returns the next position at or after `from` where cutting the text changes no word of any pre-tokenizer: before
/// ASCII white space that follows a letter or number. Returns text.size() if there is none.
[[nodiscard]] size_t word_border(std::string_view text, size_t from);

/// Calls take(part) for consecutive parts of `text`, cut at word_border(). All but the last have at least `n_bytes`.
template <typename Take>
void for_parts(std::string_view text, size_t n_bytes, Take&& take) {
  while (!text.empty()) {
    const size_t end = word_border(text, std::min(n_bytes, text.size()));
    take(text.substr(0, end));
    text.remove_prefix(end);
  }
}

/// A value of tokenizer.ggml.pre in GGUF files, and the settings that it implies.
struct PreTokenizerName {
  std::string_view name;
  PreTokenizer kind;
  bool ignore_merges = false;  ///< a word that is a piece becomes one token, without merging
  bool add_bos = false;        ///< value of add_bos_token if the file lacks this key
  bool nfc = false;            ///< the model's own tokenizer applies NFC first; llama.cpp does not
};

/// Returns the settings that the value `name` of tokenizer.ggml.pre implies. Throws core::Error, prefixed with `where`,
/// if the name is unknown; the message lists the known names.
[[nodiscard]] const PreTokenizerName& pre_tokenizer_named(std::string_view name, const std::string& where);

/// Returns the first known value of tokenizer.ggml.pre with these settings, or null.
[[nodiscard]] const PreTokenizerName* name_of(PreTokenizer kind, bool ignore_merges, bool nfc);

}  // namespace folio::data
