// A conversation as the text that a chat model was trained to continue. Model files carry a Jinja program for it; the
// families that published Llamas use are written here as functions, chosen by what the program has in it.
// What people and models say is never looked through for special tokens: only the template's own marks become such.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace folio::data {

enum class ChatRole { System, User, Assistant };
[[nodiscard]] std::string_view chat_role_name(ChatRole role);

struct ChatMessage {
  ChatRole role;
  std::string content;
};

/// A part of a rendered chat: a mark of the template, or what somebody says.
struct ChatPiece {
  std::string text;
  bool is_mark = false;
};

enum class ChatFamily { ChatMl, Gemma, Llama2, Llama3, Zephyr };

/// A family, and what one template of it does in its own way.
struct ChatTemplate {
  ChatFamily family = ChatFamily::ChatMl;
  bool writes_bos = false;       ///< begins with the BOS, whatever the tokenizer adds to other texts
  bool trims = false;            ///< contents lose the whitespace at their ends, as by Python's str.strip
  bool takes_system = true;      ///< Gemma 1 and 2 have no system message
  std::string default_system{};  ///< ChatML, Llama 3: said where the conversation begins without a system message
  std::string preamble{};        ///< Llama 3.1: stands in front of the system message, also where there is none
};

/// The text of a conversation up to where the assistant's next answer begins: with `add_generation_prompt`, the
/// template's own rendering byte for byte. `bos` and `eos` are the texts of those tokens. Throws core::Error if the
/// template has no form for such a conversation: no messages, a system message that is not the first, or turns that
/// don't alternate where they have to (Llama 2, Gemma).
[[nodiscard]] std::vector<ChatPiece> render_chat(const ChatTemplate& chat, std::span<const ChatMessage> messages,
                                                 std::string_view bos, std::string_view eos);

/// The same in tokens, with the tokenizer's prefix_tokens() in front unless the template writes a BOS itself.
[[nodiscard]] std::vector<int32_t> encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                               std::span<const ChatMessage> messages);

/// The mark that ends an answer; empty where that is the tokenizer's EOS.
[[nodiscard]] std::string_view end_of_turn(ChatFamily family);

/// "chatml", "gemma", "llama2", "llama3", "zephyr".
[[nodiscard]] const std::vector<std::string>& chat_template_names();
/// The plain template of a family. Throws core::UsageError that lists the names if there is none of that name.
[[nodiscard]] ChatTemplate chat_template_named(std::string_view name);
/// The template that a Jinja program stands for. Throws core::Error that begins with `where` and lists the names if it
/// is empty or is not known to be one of these: a program with marks or operations of another family is refused.
[[nodiscard]] ChatTemplate recognize_chat_template(std::string_view jinja, const std::string& where);

}  // namespace folio::data
