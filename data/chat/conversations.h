// Prepares conversations for training: parses lines of JSON, renders them with a model's chat template, and tokenizes
// them. Only the tokens of answers count in the loss; they are called learned.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "data/chat/chat_template.h"
#include "data/chat/tool_format.h"
#include "data/documents.h"
#include "data/tokenizers/tokenizer.h"

namespace folio::data {

struct StoredConversation {
  std::vector<ChatMessage> messages;
  std::string tools{};  ///< functions as a JSON list (RenderOptions::tools)
  std::string where{};  ///< file and line, for errors
};

/// Returns true if the files contain conversations, not plain texts: the first line is a JSON object with "messages"
/// and without the key `field`.
[[nodiscard]] bool are_conversations(const Documents& documents, const std::string& field);

/// Reads lines {"messages": [{"role", "content"}, …]}, as in OpenAI's fine-tuning format and TRL. Messages may have
/// tool_calls, tool_call_id and name; the object may have "tools". Other keys of the object are ignored. Throws
/// core::Error with file, line and remedy for an invalid line, or one without an assistant's answer.
[[nodiscard]] std::vector<StoredConversation> read_conversations(const Documents& documents);

/// A tokenized conversation, cut after its last answer. `is_learned` is true for the tokens of answers, the only ones
/// that count in the loss.
struct ChatExample {
  std::vector<int32_t> tokens;
  std::vector<bool> is_learned;
};

/// Renders and tokenizes conversations, and determines which tokens count in the loss (ChatExample::is_learned).
class ChatRenderer {
 public:
  /// The tokenizer and the template must outlive the renderer.
  ChatRenderer(const Tokenizer& tokenizer, const ChatTemplate& chat);

  /// Returns the tokens to train on, as transformers would tokenize the conversation. Only answers are learned, each
  /// with the text that ends its turn. An answer is the output of a {% generation %} block if the template has one,
  /// otherwise the text after the generation prompt. If the template changes earlier answers, for example by dropping
  /// reasoning, each answer becomes a separate example. Throws core::Error, prefixed with the conversation's `where`,
  /// if the template raises an exception or does not write the generation prompt before an answer. Thread-safe.
  [[nodiscard]] std::vector<ChatExample> examples(const StoredConversation& conversation) const;

  /// Returns true if the training targets of answers include a token or text that stops generation.
  [[nodiscard]] bool learns_to_stop() const;

  /// Returns the tokens of a conversation whose answer is to be generated, and of the generation prompt after it.
  [[nodiscard]] std::vector<int32_t> prompt(const StoredConversation& conversation) const;

 private:
  [[nodiscard]] ChatWithTools prepared(const StoredConversation& conversation) const;

  const Tokenizer& tokenizer_;
  const ChatTemplate& chat_;
  std::string mark_;  ///< text that ends a turn: end_of_turn()
  std::string next_;  ///< if mark_ is empty: the text that begins the next turn and stops generation, or ""
  mutable std::once_flag once_;
  mutable std::optional<ToolFormat> format_;  ///< how the template writes calls; set when first needed
};

}  // namespace folio::data
