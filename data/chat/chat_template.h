// Renders conversations in the format that a chat model was trained on, as transformers' apply_chat_template does: with
// the model's own Jinja template, a named template, or a template file. Message content is never parsed for special
// tokens; only the template's own text is.
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

/// A function call in an assistant's message.
struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  ///< a JSON object, as text
};

struct ChatMessage {
  ChatRole role;
  std::string content;
  std::vector<ToolCall> calls{};  ///< function calls, in an assistant's message
  std::string call_id{};          ///< ID of the call that a tool's message answers
  std::string name{};             ///< name of the function in a tool's message, if given
  std::string reasoning{};        ///< reasoning that an assistant wrote before its answer
};

struct RenderOptions {
  bool add_generation_prompt = true;         ///< append the header of the assistant's next turn
  std::string tools{};                       ///< functions as a JSON list in OpenAI's format; empty if there are none
  bool arguments_as_text = false;            ///< pass the arguments of calls as a string instead of an object
  std::optional<core::WorkBudget> budget{};  ///< limits the work of rendering; if not set, a default limit applies
  std::string variables{};  ///< more template variables as a JSON object, such as {"enable_thinking": false}
};

/// Part of a rendered chat: either template text, in which special tokens are parsed, or message content.
struct ChatPiece {
  std::string text;
  bool is_template = false;
};

/// A range of bytes [begin, end) in the concatenated pieces of a rendered chat.
struct ChatSpan {
  size_t begin;
  size_t end;
};

class ChatTemplate {
 public:
  /// Parses a Jinja template; `for_tools`, if given, renders chats with tools instead. Throws core::Error that begins
  /// with `where` and mentions --chat-template if the template is empty, invalid, or uses unsupported features.
  ChatTemplate(std::string_view jinja, std::string where, std::string_view for_tools = {});

  /// Renders a conversation as alternating pieces of template text and content; tools and calls count as content. `bos`
  /// and `eos` are the texts of those tokens. Throws core::Error if the template raises an exception, as many do for
  /// roles that do not alternate or for a system message, or if a call's arguments are not JSON. `generated`, if not
  /// null, receives the ranges written by {% generation %} blocks, in order.
  [[nodiscard]] std::vector<ChatPiece> render(std::span<const ChatMessage> messages, std::string_view bos,
                                              std::string_view eos, const RenderOptions& options = {},
                                              std::vector<ChatSpan>* generated = nullptr) const;

  [[nodiscard]] const std::string& source() const { return source_; }

  /// Returns true if the template marks assistants' answers by {% generation %} blocks, as in transformers.
  /// `with_tools` selects the template for chats with tools.
  [[nodiscard]] bool has_generation(bool with_tools) const { return jinja::has_generation(program(with_tools)); }

 private:
  std::string source_;
  std::string where_;
  std::shared_ptr<const jinja::Block> program_;
  std::shared_ptr<const jinja::Block> for_tools_;  ///< renders chats with tools; null: program_ renders all chats

  [[nodiscard]] const jinja::Block& program(bool with_tools) const {
    return with_tools && for_tools_ ? *for_tools_ : *program_;
  }
};

/// Calls chat.render() with the texts of the tokenizer's BOS and EOS as `bos` and `eos`.
[[nodiscard]] std::vector<ChatPiece> render_chat(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                                 std::span<const ChatMessage> messages, const RenderOptions& options,
                                                 std::vector<ChatSpan>* generated = nullptr);

/// Tokenizes a rendered chat. Prepends the special tokens that the model expects first (prefix_tokens(), usually BOS)
/// unless the chat begins with them.
[[nodiscard]] std::vector<int32_t> encode_rendered(const Tokenizer& tokenizer, std::span<const ChatPiece> rendered);

/// Renders and tokenizes a conversation.
[[nodiscard]] std::vector<int32_t> encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                               std::span<const ChatMessage> messages,
                                               const RenderOptions& options = {});

/// Returns the text that ends an answer. If the template writes a special token after the answer, returns the token's
/// text; otherwise the text after the answer up to the next whitespace. Empty if nothing follows an answer.
[[nodiscard]] std::string end_of_turn(const Tokenizer& tokenizer, const ChatTemplate& chat);

/// Delimiters of the reasoning that a model writes before its answer (Qwen 3, DeepSeek-R1, SmolLM3).
inline constexpr std::string_view kThinkBegin = "<think>";
inline constexpr std::string_view kThinkEnd = "</think>";
/// Reasoning in an answer. None: the model does not support it. Possible: the answer may begin with "<think>". Begun:
/// the prompt opens "<think>" without closing it, so the answer's first token is part of the reasoning.
enum class Thinking : uint8_t { None, Possible, Begun };
/// Returns where the answer to `prompt` may contain reasoning: None if neither template nor vocabulary supports
/// reasoning.
[[nodiscard]] Thinking thinking_of(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                   std::span<const ChatPiece> prompt);

/// Returns the chat template stored with a model. As in transformers, "tool_use" renders chats with tools and "default"
/// all others. Error messages begin with `where`, the model's name. Throws core::Error as ChatTemplate() does.
[[nodiscard]] ChatTemplate chat_template_of(const Tokenizer& tokenizer, const std::string& where);

/// Returns the names of the built-in templates: "chatml", "gemma", "llama2", "llama3", "zephyr".
[[nodiscard]] const std::vector<std::string>& chat_template_names();
/// Returns the template named `name_or_file` in `model` (if not null), or else the built-in template of that name, or
/// else the template in that file. Throws core::UsageError that lists the built-in names if none of them exists.
[[nodiscard]] ChatTemplate chat_template_named(const std::string& name_or_file, const Tokenizer* model = nullptr);
/// Returns chat_template_named(name_or_file, &model). If `name_or_file` is empty, returns the model's own template
/// instead, or nullopt if it has none; errors in that template begin with `where`.
[[nodiscard]] std::optional<ChatTemplate> find_chat_template(const Tokenizer& model, const std::string& where,
                                                             const std::string& name_or_file);

}  // namespace folio::data
