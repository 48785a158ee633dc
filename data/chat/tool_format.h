// The format in which a chat model writes function calls. It is derived from the chat template: a conversation with
// made-up calls is rendered, and the text around their names, arguments and IDs is the format. If the template does not
// support tools, or does not write arguments as JSON, the prompt describes the tools and asks for calls in the format
// of Hermes 2 Pro and Qwen 2.5: <tool_call>{"name": …, "arguments": …}</tool_call>.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/chat/chat_template.h"

namespace folio::data {

/// Characters that a function's name may contain. None of them needs escaping in any format.
inline constexpr std::string_view kToolNameLetters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
/// Length of call IDs, which are letters and digits. Some templates require nine.
inline constexpr size_t kCallIdLength = 9;

/// A piece of the format of a call: literal text, or a placeholder for the function's name, the arguments or the ID.
struct CallPiece {
  enum class Kind : uint8_t { Text, Name, Arguments, Id };
  Kind kind;
  std::string text{};  ///< literal text, for Kind::Text
};

struct ToolFormat {
  std::string before{};   ///< text between the generation prompt and every answer, which the model must generate
  std::string opening{};  ///< text between `before` and the name of the first call
  /// The beginning of `opening`, which distinguishes a call from an answer without calls.
  std::string trigger{};
  bool only_at_start = false;      ///< `trigger` is plain JSON: only at the start of an answer does it begin a call
  std::vector<CallPiece> call{};   ///< pieces of a call, from the function's name to its arguments or ID
  bool several = false;            ///< an answer may have more than one call
  std::string separator{};         ///< text between two calls, up to the name of the second
  std::string closing{};           ///< text between the last call and the end of the turn
  bool has_spaces = true;          ///< the JSON of arguments has spaces after commas and colons
  bool arguments_as_text = false;  ///< the value that RenderOptions::arguments_as_text must have for this template
  bool in_words = false;           ///< the template does not support tools, so the prompt describes them
  bool has_system = true;          ///< the template supports a system message, which then describes the tools
  std::vector<int32_t> marks{};    ///< IDs of the special tokens in the format
};

/// Returns the format in which a template writes calls. A template that does not write arguments as a JSON object (but
/// as XML or Python) is treated as one without support for tools. Rendering spends steps of `budget`. Throws
/// core::Error if the template does not write the content of an answer.
[[nodiscard]] ToolFormat tool_format(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                     const core::WorkBudget& budget = core::WorkBudget());

/// The arguments of render_chat() for a conversation that may contain tools, calls and results of calls.
struct ChatWithTools {
  std::vector<ChatMessage> messages;
  RenderOptions options;
};
/// Returns the arguments of render_chat() for a conversation with `tools`, a JSON list, and calls in `format`.
[[nodiscard]] ChatWithTools with_tools(std::span<const ChatMessage> messages, const std::string& tools,
                                       const ToolFormat& format);

/// Wraps a tokenizer so that given special tokens, such as [TOOL_CALLS], are decoded to their text instead of nothing,
/// and do not stop generation.
class MarkedTokenizer final : public Tokenizer {
 public:
  /// `marks` are the IDs of the special tokens to decode (ToolFormat::marks). `tokenizer` must outlive this object.
  MarkedTokenizer(const Tokenizer& tokenizer, std::span<const int32_t> marks);

  [[nodiscard]] std::vector<int32_t> encode(std::string_view text) const override { return tokenizer_.encode(text); }
  [[nodiscard]] std::vector<int32_t> encode_pieces(std::span<const PromptPiece> pieces) const override {
    return tokenizer_.encode_pieces(pieces);
  }
  [[nodiscard]] const SpecialTokens& special_tokens() const override { return tokenizer_.special_tokens(); }
  [[nodiscard]] std::vector<int32_t> prefix_tokens() const override { return tokenizer_.prefix_tokens(); }
  [[nodiscard]] const std::string& token_bytes(int32_t id) const override;
  [[nodiscard]] int32_t vocab_size() const override { return tokenizer_.vocab_size(); }
  [[nodiscard]] int32_t end_of_text() const override { return tokenizer_.end_of_text(); }
  [[nodiscard]] int32_t bos() const override { return tokenizer_.bos(); }
  [[nodiscard]] bool ends_text(int32_t id) const override;
  [[nodiscard]] std::vector<int32_t> suppressed_tokens() const override;
  [[nodiscard]] std::vector<int32_t> default_prompt() const override { return tokenizer_.default_prompt(); }
  [[nodiscard]] std::string kind() const override { return tokenizer_.kind(); }

 private:
  const Tokenizer& tokenizer_;
  std::vector<SpecialToken> marks_;
};

}  // namespace folio::data
