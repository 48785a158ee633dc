#include "infer/interfaces/fast_llm_chat.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "core/error.h"

namespace folio::infer::fast_llm {
namespace {

using data::ChatMessage;
using data::ChatRole;

std::string rendered(const data::Tokenizer& tokenizer, const Chat& chat, std::span<const ChatMessage> messages,
                     bool begins_answer) {
  std::string text;
  for (const data::ChatPiece& piece :
       data::render_chat(tokenizer, *chat, messages, {.add_generation_prompt = begins_answer}))
    text += piece.text;
  return text;
}

// A template writes whole conversations, and a history is a text: what the template adds for these messages to a
// conversation that had a turn before.
std::string with_turn(const data::Tokenizer& tokenizer, const Chat& chat, const std::string& history, int round,
                      std::span<const ChatMessage> turn) {
  const bool begins_answer = turn.back().role == ChatRole::User;
  if (round == 0) return rendered(tokenizer, chat, turn, begins_answer);
  std::vector<ChatMessage> messages{{.role = ChatRole::User, .content = "question"},
                                    {.role = ChatRole::Assistant, .content = "answer"}};
  const std::string before = rendered(tokenizer, chat, messages, false);
  std::ranges::copy(turn, std::back_inserter(messages));
  const std::string whole = rendered(tokenizer, chat, messages, begins_answer);
  core::require(whole.starts_with(before),
                "the chat template writes a turn in another way where others follow, so a history can't grow as a "
                "text; render the whole conversation");
  return history + whole.substr(before.size());
}

}  // namespace

std::string make_input(const data::Tokenizer& tokenizer, const Chat& chat, const std::string& history, int round,
                       const std::string& input) {
  if (!chat) return (round == 0 ? "" : history) + input;
  const std::vector<ChatMessage> turn{{.role = ChatRole::User, .content = input}};
  return with_turn(tokenizer, chat, history, round, turn);
}

std::string make_history(const data::Tokenizer& tokenizer, const Chat& chat, const std::string& history, int round,
                         const std::string& input, const std::string& output) {
  if (!chat) return (round == 0 ? "" : history) + input + output;
  const std::vector<ChatMessage> turn{{.role = ChatRole::User, .content = input},
                                      {.role = ChatRole::Assistant, .content = output}};
  return with_turn(tokenizer, chat, history, round, turn);
}

std::vector<int32_t> encode(const data::Tokenizer& tokenizer, const Chat& chat, std::string_view text) {
  if (text.empty()) return tokenizer.default_prompt();
  const std::vector<data::TextPiece> pieces{{.text = text, .parse_special = chat.has_value()}};
  return tokenizer.with_prefix(tokenizer.encode_pieces(pieces));
}

}  // namespace folio::infer::fast_llm
