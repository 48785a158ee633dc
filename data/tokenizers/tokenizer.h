// Converts text to token ids and back: the interface of every kind of tokenizer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/formats/gguf.h"
#include "data/tokenizers/added_tokens.h"

namespace folio::data {

/// The metadata key of the chat template, in Jinja, in a GGUF file; others have ".NAME" behind it.
inline constexpr const char* kGgufChatTemplate = "tokenizer.chat_template";

/// The names of the chat template that is used where none is named, and of the one for chats with tools.
inline constexpr const char* kDefaultTemplate = "default";
inline constexpr const char* kToolTemplate = "tool_use";
using ChatTemplates = std::map<std::string, std::string>;

/// How a prompt is read.
struct PromptOptions {
  bool parse_special = true;  ///< "<s>" in it is the special token
  bool add_special = true;    ///< prefix_tokens() come before it
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// The ids of `text`. Special tokens are neither added nor parsed: "<s>" in a text is three characters.
  /// Throws core::Error for text that the vocabulary cannot represent.
  [[nodiscard]] virtual std::vector<int32_t> encode(std::string_view text) const = 0;

  /// The ids of the concatenated pieces: a word may begin in one piece and end in the next. A special token is parsed
  /// only where it lies within one piece with `parse_special`, so a user's text never becomes one.
  [[nodiscard]] virtual std::vector<int32_t> encode_pieces(std::span<const TextPiece> pieces) const;

  /// The tokens that are not text: BOS, EOS, the markers of a chat's turns.
  [[nodiscard]] virtual const SpecialTokens& special_tokens() const;

  /// The special tokens that the model expects before a text: {BOS}, or none.
  [[nodiscard]] virtual std::vector<int32_t> prefix_tokens() const { return {}; }

  /// A text as the model reads it: prefix_tokens(), then encode(text).
  [[nodiscard]] std::vector<int32_t> encode_with_prefix(std::string_view text) const;

  /// A prompt as the model reads it. prefix_tokens() are added unless the prompt's tokens begin with them.
  [[nodiscard]] std::vector<int32_t> encode_prompt(std::string_view text, const PromptOptions& options = {}) const;

  /// `tokens` with prefix_tokens() before them, unless they begin with those.
  [[nodiscard]] std::vector<int32_t> with_prefix(std::vector<int32_t> tokens) const;

  /// The bytes of a token, which may be part of a UTF-8 character; empty for control tokens.
  [[nodiscard]] virtual const std::string& token_bytes(int32_t id) const = 0;

  [[nodiscard]] virtual int32_t vocab_size() const = 0;
  [[nodiscard]] virtual int32_t end_of_text() const = 0;

  /// BOS, or end_of_text() where there is none.
  [[nodiscard]] virtual int32_t begin_of_text() const { return end_of_text(); }

  /// Whether generation stops at this token: `end_of_text()`, the end of a chat's turn, BOS, which begins another text,
  /// or one of end_at().
  [[nodiscard]] virtual bool ends_text(int32_t id) const { return id == end_of_text() || is_end(id); }
  /// Generation stops at these ids of the vocabulary, too: a model's generation_config.json lists them.
  void end_at(std::vector<int32_t> ids) { ends_ = std::move(ids); }

  /// Tokens that are never sampled.
  [[nodiscard]] virtual std::vector<int32_t> suppressed_tokens() const = 0;

  /// What to generate from when there is no prompt.
  [[nodiscard]] virtual std::vector<int32_t> default_prompt() const = 0;

  /// For messages: "character", "byte-level BPE", "SentencePiece".
  [[nodiscard]] virtual std::string kind() const = 0;

  /// The text of the tokens: `decode(encode(text))` is `text`. For tokens that continue a text, concatenate their
  /// `token_bytes` instead.
  [[nodiscard]] virtual std::string decode(const std::vector<int32_t>& tokens) const {
    std::string text;
    for (const int32_t token : tokens) text += token_bytes(token);
    return text;
  }

  /// This tokenizer as metadata of a GGUF file. Throws core::Error if the format cannot represent it.
  [[nodiscard]] core::GgufMetadata to_gguf() const;

  /// Writes tokenizer.json and tokenizer_config.json of a Hugging Face directory. Throws core::Error as to_gguf() does.
  virtual void write_hf(const std::filesystem::path& directory) const;

  /// The chat templates, in Jinja, that came with the vocabulary, by their names. "tool_use" is for chats with tools.
  [[nodiscard]] const ChatTemplates& chat_templates() const { return chat_templates_; }
  void set_chat_templates(ChatTemplates templates) { chat_templates_ = std::move(templates); }
  /// The one named "default", or an empty string.
  [[nodiscard]] const std::string& chat_template() const;
  /// Makes it the only one; an empty string: there is none.
  void set_chat_template(std::string text);

 protected:
  [[nodiscard]] bool is_end(int32_t id) const { return std::find(ends_.begin(), ends_.end(), id) != ends_.end(); }

 private:
  /// to_gguf() without the chat template.
  [[nodiscard]] virtual core::GgufMetadata vocabulary_to_gguf() const;

  ChatTemplates chat_templates_;
  std::vector<int32_t> ends_;
};

}  // namespace folio::data
