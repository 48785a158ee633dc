// Text to token ids and back. Every kind of tokenizer gives the same answers through this interface.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/formats/gguf.h"
#include "data/tokenizers/special_tokens.h"

namespace folio::data {

/// Where a GGUF file has the Jinja template of a chat.
inline constexpr const char* kGgufChatTemplate = "tokenizer.chat_template";

/// A part of a text, and whether special tokens are looked for in it.
struct TextPiece {
  std::string_view text;
  bool parse_special = false;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// The ids of `text`. Special tokens are neither added nor looked for: "<s>" in a text is three characters.
  /// Throws core::Error for text that has no tokens.
  [[nodiscard]] virtual std::vector<int32_t> encode(std::string_view text) const = 0;

  /// The ids of the pieces, one after the other, as one text: a word may begin in one piece and end in the next.
  /// Special tokens are recognized where they lie within one piece that asks for it, so what a user writes can't become
  /// one.
  [[nodiscard]] std::vector<int32_t> encode_pieces(std::span<const TextPiece> pieces) const;

  /// The tokens that are no text: BOS, EOS, the marks of a chat's turns.
  [[nodiscard]] virtual const SpecialTokens& special_tokens() const;

  /// The special tokens that a model expects in front of a text: {BOS}, or none.
  [[nodiscard]] virtual std::vector<int32_t> prefix_tokens() const { return {}; }

  /// The bytes that a token stands for (part of a UTF-8 character, perhaps); empty for `<|endoftext|>`.
  [[nodiscard]] virtual const std::string& token_bytes(int32_t id) const = 0;

  [[nodiscard]] virtual int32_t vocab_size() const = 0;
  [[nodiscard]] virtual int32_t end_of_text() const = 0;

  /// BOS, or end_of_text() where there is none.
  [[nodiscard]] virtual int32_t begin_of_text() const { return end_of_text(); }

  /// Whether a text is over where this token is drawn: `end_of_text()`, the end of a chat's turn, and a BOS, which
  /// begins another text.
  [[nodiscard]] virtual bool ends_text(int32_t id) const { return id == end_of_text(); }

  /// Tokens that are not to be drawn when text is generated.
  [[nodiscard]] virtual std::vector<int32_t> suppressed_tokens() const = 0;

  /// What a text begins after when nobody gives a prompt.
  [[nodiscard]] virtual std::vector<int32_t> default_prompt() const = 0;

  /// One word for people: "character", "SentencePiece".
  [[nodiscard]] virtual std::string kind() const = 0;

  /// The text whose tokens these are: `decode(encode(text))` is `text`. Tokens that go on from others are not a text;
  /// theirs is what `token_bytes` gives, one after the other.
  [[nodiscard]] virtual std::string decode(const std::vector<int32_t>& tokens) const {
    std::string text;
    for (const int32_t token : tokens) text += token_bytes(token);
    return text;
  }

  /// The metadata that carry this tokenizer in a GGUF file. Throws core::Error where that form cannot hold it.
  [[nodiscard]] core::GgufMetadata to_gguf() const;

  /// Writes tokenizer.json and tokenizer_config.json of a Hugging Face directory. Throws core::Error likewise.
  virtual void write_hf(const std::filesystem::path& directory) const;

  /// The Jinja template of a chat that came with the vocabulary; empty where none did.
  [[nodiscard]] const std::string& chat_template() const { return chat_template_; }
  void set_chat_template(std::string text) { chat_template_ = std::move(text); }

 private:
  /// to_gguf() without the chat template.
  [[nodiscard]] virtual core::GgufMetadata vocabulary_to_gguf() const;

  std::string chat_template_;
};

}  // namespace folio::data
