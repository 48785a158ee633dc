// A chat: its messages. A turn is rendered whole by the template, and what is not cached of it is computed:
// an answer is, byte for byte, the one that the same messages get in a conversation of their own.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/chat/chat_template.h"
#include "infer/engine/generate.h"

namespace folio::infer {

struct Answer {
  std::vector<int32_t> prompt_tokens;  ///< the conversation, up to where the answer begins
  GenerateResult result;
};

/// What ends an answer of a chat: a token, or, where the vocabulary has none for the template's mark, a text. Added to
/// what ends a request's text.
void end_at_turn(const data::Tokenizer& tokenizer, const data::ChatTemplate& chat, GenerateOptions& options);

class Conversation {
 public:
  /// Without a system message the template says its own, if it has one. The engine and the tokenizer have to outlive
  /// the conversation.
  Conversation(Engine& engine, const data::Tokenizer& tokenizer, data::ChatTemplate chat_template,
               std::optional<std::string> system);

  /// Adds what the user says, generates the answer and adds it. `options` are as for generate(); `slide` has to be
  /// off. An answer that was interrupted before it said anything is taken back with its question. Throws core::Error,
  /// with the conversation as it was, if it does not fit the context or the template has no form for it.
  Answer say(std::string text, const GenerateOptions& options, const std::function<void(std::string_view)>& on_text,
             const Interrupted& interrupted = {});

  /// Back to the system message alone.
  void reset();

  [[nodiscard]] const std::vector<data::ChatMessage>& messages() const { return messages_; }

 private:
  Engine& engine_;
  const data::Tokenizer& tokenizer_;
  data::ChatTemplate template_;
  std::vector<data::ChatMessage> messages_;
  size_t n_system_;  ///< messages that a reset leaves
};

}  // namespace folio::infer
