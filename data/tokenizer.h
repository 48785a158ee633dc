// Text to token ids and back. Every kind of tokenizer gives the same answers through this interface.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/gguf.h"

namespace folio::data {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// The ids of `text`, with no special token added. Throws core::Error for text that has no tokens.
  [[nodiscard]] virtual std::vector<int32_t> encode(std::string_view text) const = 0;

  /// The bytes that a token stands for (part of a UTF-8 character, perhaps); empty for `<|endoftext|>`.
  [[nodiscard]] virtual const std::string& token_bytes(int32_t id) const = 0;

  [[nodiscard]] virtual int32_t vocab_size() const = 0;
  [[nodiscard]] virtual int32_t end_of_text() const = 0;

  /// Tokens that are not to be drawn when text is generated.
  [[nodiscard]] virtual std::vector<int32_t> never_sampled() const = 0;

  /// What a text begins after when nobody gives a prompt.
  [[nodiscard]] virtual std::vector<int32_t> default_prompt() const = 0;

  /// One word for people: "character".
  [[nodiscard]] virtual std::string kind() const = 0;

  [[nodiscard]] std::string decode(const std::vector<int32_t>& tokens) const {
    std::string text;
    for (const int32_t token : tokens) text += token_bytes(token);
    return text;
  }
};

/// The tokenizer inside a GGUF file. Throws core::Error if it is of a kind that is not supported, or damaged.
[[nodiscard]] std::unique_ptr<Tokenizer> tokenizer_from_gguf(const core::GgufFile& file);

}  // namespace folio::data
