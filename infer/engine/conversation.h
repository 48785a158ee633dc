// A chat. Each turn renders the whole conversation with the template and computes only tokens that are not cached.
// Answers are byte for byte those of a new conversation with the same messages.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/chat/chat_template.h"
#include "infer/engine/generate.h"

namespace folio::infer {

struct Answer {
  std::vector<int32_t> prompt_tokens;  ///< the rendered conversation before the answer
  GenerateResult result;
};

/// Makes `options` end an output at the template's end-of-turn mark: an end token, or a stop string if the mark is not
/// a single token of the vocabulary.
void end_at_turn(const data::Tokenizer& tokenizer, const data::ChatTemplate& chat, GenerateOptions& options);

class Conversation {
 public:
  /// Starts a conversation. Without `system`, the template inserts its default system message, if it has one. Engine
  /// and tokenizer must outlive the conversation.
  Conversation(Engine& engine, const data::Tokenizer& tokenizer, data::ChatTemplate chat_template,
               std::optional<std::string> system);

  /// Adds the user's message, generates the answer and adds it. `options` are as for generate(), without `slide`. If
  /// the answer is interrupted before any output, neither message is added. Throws core::Error, and leaves the
  /// conversation unchanged, if the messages do not fit the context or the template rejects them.
  Answer say(std::string text, const GenerateOptions& options, const std::function<void(std::string_view)>& on_text,
             const Interrupted& interrupted = {});

  /// Removes all messages except the system message.
  void reset();

  [[nodiscard]] const std::vector<data::ChatMessage>& messages() const { return messages_; }

 private:
  Engine& engine_;
  const data::Tokenizer& tokenizer_;
  data::ChatTemplate template_;
  std::vector<data::ChatMessage> messages_;
  size_t n_system_;  ///< messages that reset() keeps
};

}  // namespace folio::infer
