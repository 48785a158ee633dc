// The interface of all tokenizers, which convert text to tokens and back.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/formats/gguf.h"
#include "data/tokenizers/added_tokens.h"

namespace folio::data {

/// Key of the default chat template (Jinja) in a GGUF file. The keys of other templates have ".NAME" appended.
inline constexpr const char* kGgufChatTemplate = "tokenizer.chat_template";

/// Names of the default chat template and of the template for chats with tools.
inline constexpr const char* kDefaultTemplate = "default";
inline constexpr const char* kToolTemplate = "tool_use";
using ChatTemplates = std::map<std::string, std::string>;

/// Options for encoding a prompt.
struct PromptOptions {
  bool parse_special = true;  ///< parse special tokens: "<s>" in the prompt is one token
  bool add_special = true;    ///< prepend the tokens that the model expects first, usually BOS (prefix_tokens())
};

/// The texts of a tokenizer's files for Hugging Face's tokenizers.
struct HfFiles {
  std::string tokenizer;  ///< tokenizer.json, with everything that encode() depends on
  std::string config;     ///< tokenizer_config.json
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Returns the tokens of `text`. Special tokens are neither added nor parsed: "<s>" is three characters. Throws
  /// core::Error for text that the vocabulary cannot represent.
  [[nodiscard]] virtual std::vector<int32_t> encode(std::string_view text) const = 0;

  /// Returns the tokens of the concatenated pieces: a word may begin in one piece and end in the next. Special tokens
  /// are parsed only within a single piece with `parse_special`, so that a user's text never contains special tokens.
  [[nodiscard]] virtual std::vector<int32_t> encode_pieces(std::span<const PromptPiece> pieces) const;

  /// Returns the tokens that do not represent text, such as BOS, EOS and the markers of a chat's turns.
  [[nodiscard]] virtual const SpecialTokens& special_tokens() const;

  /// Returns the special tokens that the model expects before a text, usually BOS. Empty if there are none.
  [[nodiscard]] virtual std::vector<int32_t> prefix_tokens() const { return {}; }

  /// Returns a prompt's tokens. With add_special, prepends prefix_tokens() unless the prompt already begins with them.
  [[nodiscard]] std::vector<int32_t> encode_prompt(std::string_view text, const PromptOptions& options = {}) const;

  /// Returns `tokens`, with prefix_tokens() prepended unless `tokens` already begins with them.
  [[nodiscard]] std::vector<int32_t> with_prefix(std::vector<int32_t> tokens) const;

  /// Returns the bytes of a token, which may end within a UTF-8 character. Empty for control tokens.
  [[nodiscard]] virtual const std::string& token_bytes(int32_t id) const = 0;

  [[nodiscard]] virtual int32_t vocab_size() const = 0;
  [[nodiscard]] virtual int32_t end_of_text() const = 0;

  /// Returns BOS, or -1 if there is none.
  [[nodiscard]] virtual int32_t bos() const { return -1; }
  /// Returns BOS, or end_of_text() if there is none.
  [[nodiscard]] int32_t begin_of_text() const { return bos() >= 0 ? bos() : end_of_text(); }

  /// Returns true if generation stops at this token: end_of_text(), the end of a chat turn, a token set by end_at(), or
  /// BOS, which begins another text.
  [[nodiscard]] virtual bool ends_text(int32_t id) const { return id == end_of_text() || is_end(id); }
  /// Sets additional tokens that stop generation, such as those in a model's generation_config.json.
  void end_at(std::vector<int32_t> ids) { ends_ = std::move(ids); }

  /// Returns tokens that must never be sampled.
  [[nodiscard]] virtual std::vector<int32_t> suppressed_tokens() const { return {}; }

  /// Returns the tokens that generation starts from if there is no prompt.
  [[nodiscard]] virtual std::vector<int32_t> default_prompt() const = 0;

  /// Returns the tokenizer's kind, for messages: "character", "byte-level BPE" or "SentencePiece".
  [[nodiscard]] virtual std::string kind() const = 0;

  /// Returns the text of tokens. decode(encode(text)) is `text`, normalized if the tokenizer normalizes text. To decode
  /// the continuation of a text, concatenate the token_bytes() of its tokens instead.
  [[nodiscard]] virtual std::string decode(const std::vector<int32_t>& tokens) const {
    std::string text;
    for (const int32_t token : tokens) text += token_bytes(token);
    return text;
  }

  /// Returns this tokenizer as the metadata of a GGUF file. Throws core::Error if GGUF cannot represent it.
  [[nodiscard]] core::GgufMetadata to_gguf() const;

  /// Returns tokenizer.json and tokenizer_config.json. Throws core::Error if they cannot represent this tokenizer.
  [[nodiscard]] virtual HfFiles to_hf() const;
  /// Writes the files of to_hf().
  void write_hf(const std::filesystem::path& directory) const;

  /// Returns the model's chat templates (Jinja) by name. The one named "tool_use" is for chats with tools.
  [[nodiscard]] const ChatTemplates& chat_templates() const { return chat_templates_; }
  void set_chat_templates(ChatTemplates templates) { chat_templates_ = std::move(templates); }
  /// Returns the chat template named "default", or an empty string.
  [[nodiscard]] const std::string& chat_template() const;
  /// Replaces all chat templates by `text`, named "default". An empty string removes them.
  void set_chat_template(std::string text);

 protected:
  [[nodiscard]] bool is_end(int32_t id) const { return std::find(ends_.begin(), ends_.end(), id) != ends_.end(); }

 private:
  /// Returns the metadata for to_gguf(), except the chat templates.
  [[nodiscard]] virtual core::GgufMetadata vocabulary_to_gguf() const;

  ChatTemplates chat_templates_;
  std::vector<int32_t> ends_;
};

}  // namespace folio::data
