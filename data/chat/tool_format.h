// How a chat model writes that functions are called. Its template shows it: a conversation with made-up calls is
// rendered, and what stands between their names, arguments and ids is the model's way to write them. There is no list
// of models. A template that knows nothing of tools is told of them in words, and its calls are written as Hermes 2 Pro
// and Qwen 2.5 write them: <tool_call>{"name": …, "arguments": …}</tool_call>.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/chat/chat_template.h"

namespace folio::data {

/// Names of functions are of these: they stand in texts of all kinds, unescaped.
inline constexpr std::string_view kToolNameLetters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
/// Ids of calls are so many letters and digits: some templates want that.
inline constexpr size_t kCallIdLength = 9;

/// A part of a written call.
struct CallPiece {
  enum class Kind : uint8_t { Text, Name, Arguments, Id };
  Kind kind;
  std::string text{};  ///< of Text
};

struct ToolFormat {
  std::string before{};   ///< what the template writes between the prompt and any answer, and so the model has to
  std::string opening{};  ///< then, before the name of the first call
  /// The beginning of `opening`, by which a call is told from an answer: an answer without calls does not have it.
  std::string trigger{};
  bool only_at_start = false;      ///< and it is looked for only where an answer begins, since it looks like any JSON
  std::vector<CallPiece> call{};   ///< from the name to the last of name, arguments and id
  bool several = false;            ///< an answer may have more than one call
  std::string separator{};         ///< between two calls: behind one, and before the name of the other
  std::string closing{};           ///< behind the last, before the end of the turn
  bool has_spaces = true;          ///< the JSON of arguments has one after commas and colons
  bool arguments_as_text = false;  ///< RenderOptions::arguments_as_text
  bool in_words = false;           ///< the template knows no tools
  bool has_system = true;          ///< it has a system message, to put the words in
  std::vector<int32_t> marks{};    ///< tokens that are no text, and are in the above
};

/// What a template writes that is no JSON object of arguments (XML, Python) is not recognized: then the tools are told
/// in words, too. All renderings spend the budget. Throws core::Error if the template does not show what an answer
/// says.
[[nodiscard]] ToolFormat tool_format(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                     const core::WorkBudget& budget = core::WorkBudget());

/// What render_chat() is given of a conversation with tools, calls or what they returned.
struct ChatWithTools {
  std::vector<ChatMessage> messages;
  RenderOptions options;
};
/// `tools` is as RenderOptions::tools.
[[nodiscard]] ChatWithTools with_tools(std::span<const ChatMessage> messages, const std::string& tools,
                                       const ToolFormat& format);

/// encode_chat() of with_tools().
[[nodiscard]] std::vector<int32_t> encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                               std::span<const ChatMessage> messages, const std::string& tools,
                                               const ToolFormat& format,
                                               const core::WorkBudget& budget = core::WorkBudget());

/// A tokenizer to which some tokens that are no text, such as [TOOL_CALLS], are the text that is their name.
class MarkedTokenizer final : public Tokenizer {
 public:
  /// `tokenizer` has to outlive it.
  MarkedTokenizer(const Tokenizer& tokenizer, std::span<const int32_t> marks);

  [[nodiscard]] std::vector<int32_t> encode(std::string_view text) const override { return tokenizer_.encode(text); }
  [[nodiscard]] std::vector<int32_t> encode_pieces(std::span<const TextPiece> pieces) const override {
    return tokenizer_.encode_pieces(pieces);
  }
  [[nodiscard]] const SpecialTokens& special_tokens() const override { return tokenizer_.special_tokens(); }
  [[nodiscard]] std::vector<int32_t> prefix_tokens() const override { return tokenizer_.prefix_tokens(); }
  [[nodiscard]] const std::string& token_bytes(int32_t id) const override;
  [[nodiscard]] int32_t vocab_size() const override { return tokenizer_.vocab_size(); }
  [[nodiscard]] int32_t end_of_text() const override { return tokenizer_.end_of_text(); }
  [[nodiscard]] int32_t begin_of_text() const override { return tokenizer_.begin_of_text(); }
  [[nodiscard]] bool ends_text(int32_t id) const override;
  [[nodiscard]] std::vector<int32_t> suppressed_tokens() const override;
  [[nodiscard]] std::vector<int32_t> default_prompt() const override { return tokenizer_.default_prompt(); }
  [[nodiscard]] std::string kind() const override { return tokenizer_.kind(); }

 private:
  const Tokenizer& tokenizer_;
  std::vector<SpecialToken> marks_;
};

}  // namespace folio::data
