// A conversation as the text that a chat model was trained to continue: the model file's own Jinja template, rendered
// as transformers' apply_chat_template does, or one that is named or lies in a file. What people and models say is
// never looked through for special tokens: only the template's own text may become such.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "jinja/parser.h"

namespace folio::data {

enum class ChatRole { System, User, Assistant, Tool };
[[nodiscard]] std::string_view chat_role_name(ChatRole role);

/// What an assistant asks for instead of an answer, or beside it: that a function is called.
struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  ///< a JSON object
};

struct ChatMessage {
  ChatRole role;
  std::string content;
  std::vector<ToolCall> calls{};  ///< of an assistant
  std::string call_id{};          ///< of a tool: what it answers
  std::string name{};             ///< of a tool, if it says so
  std::string reasoning{};        ///< of an assistant: what it thought before its answer
};

struct RenderOptions {
  bool add_generation_prompt = true;  ///< up to where the assistant's next answer begins
  std::string tools{};                ///< a JSON list of functions, as OpenAI's API has it; empty: there are none
  bool arguments_as_text = false;     ///< the template wants the arguments of calls as a text, not as an object
  std::optional<core::WorkBudget> budget{};  ///< that rendering spends; none: one of its own
  std::string variables{};  ///< more variables of the template, a JSON object such as {"enable_thinking": false}
};

/// A part of a rendered chat: text of the template, in which special tokens are looked for, or what somebody says.
struct ChatPiece {
  std::string text;
  bool is_template = false;
};

/// Bytes [begin, end) of a rendered chat, all pieces together.
struct ChatSpan {
  size_t begin;
  size_t end;
};

class ChatTemplate {
 public:
  /// Parses a Jinja template. Throws core::Error that begins with `where` and names --chat-template if it is empty, not
  /// Jinja, or uses what is not supported.
  /// With `for_tools`, that template renders chats with tools.
  ChatTemplate(std::string_view jinja, std::string where, std::string_view for_tools = {});

  /// The text of a conversation; no two neighbours are of one kind. `bos` and `eos` are the texts of those tokens. What
  /// tools and calls say counts as said. Throws core::Error, likewise, where the template raises an exception, as many
  /// do for roles that don't alternate or for a system message, and if the arguments of a call are no JSON.
  /// `generated`, if it isn't null, gets what {% generation %} blocks wrote, in their order.
  [[nodiscard]] std::vector<ChatPiece> render(std::span<const ChatMessage> messages, std::string_view bos,
                                              std::string_view eos, const RenderOptions& options = {},
                                              std::vector<ChatSpan>* generated = nullptr) const;

  [[nodiscard]] const std::string& source() const { return source_; }  ///< in Jinja

  /// Whether the template says by {% generation %} what of a chat is an assistant's answer, as transformers has it.
  [[nodiscard]] bool has_generation(bool with_tools) const { return jinja::has_generation(program(with_tools)); }

 private:
  std::string source_;
  std::string where_;
  std::shared_ptr<const jinja::Block> program_;
  std::shared_ptr<const jinja::Block> for_tools_;  ///< null: the same

  [[nodiscard]] const jinja::Block& program(bool with_tools) const {
    return with_tools && for_tools_ ? *for_tools_ : *program_;
  }
};

/// ChatTemplate::render() with the tokenizer's BOS and EOS.
[[nodiscard]] std::vector<ChatPiece> render_chat(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                                 std::span<const ChatMessage> messages, const RenderOptions& options,
                                                 std::vector<ChatSpan>* generated = nullptr);

/// A rendered chat in tokens, with the tokenizer's prefix_tokens() in front unless they stand there.
[[nodiscard]] std::vector<int32_t> encode_rendered(const Tokenizer& tokenizer, std::span<const ChatPiece> rendered);

/// encode_rendered() of render_chat(). With a budget in the options, each byte of the rendered chat is a step of it.
[[nodiscard]] std::vector<int32_t> encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                               std::span<const ChatMessage> messages,
                                               const RenderOptions& options = {});

/// What ends an answer: the special token that the template writes after it, or, where that is not one token of the
/// vocabulary, the text up to the next whitespace. Empty if nothing follows.
[[nodiscard]] std::string end_of_turn(const Tokenizer& tokenizer, const ChatTemplate& chat);

/// What stands around the reasoning that a model writes before its answer (Qwen 3, DeepSeek-R1, SmolLM3).
inline constexpr std::string_view kThinkBegin = "<think>";
inline constexpr std::string_view kThinkEnd = "</think>";
/// Where reasoning may come: nowhere, at the beginning of the answer behind kThinkBegin, or at once, since the prompt
/// ends within it.
enum class Thinking : uint8_t { None, Possible, Begun };
/// Of a prompt. None unless the template has kThinkEnd in it, or the vocabulary both marks as tokens.
[[nodiscard]] Thinking thinking_of(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                   std::span<const ChatPiece> prompt);

/// The templates that came with a model, as transformers chooses among them: "tool_use" for chats with tools, "default"
/// for others. `where` is the model. Throws core::Error as ChatTemplate() does.
[[nodiscard]] ChatTemplate chat_template_of(const Tokenizer& tokenizer, const std::string& where);

/// "chatml", "gemma", "llama2", "llama3", "zephyr".
[[nodiscard]] const std::vector<std::string>& chat_template_names();
/// The template of that name, which the model may have, too, or in that file. Throws core::UsageError that lists the
/// names if there is neither.
[[nodiscard]] ChatTemplate chat_template_named(const std::string& name_or_file, const Tokenizer* model = nullptr);

}  // namespace folio::data
