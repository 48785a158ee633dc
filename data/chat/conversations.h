// Conversations to learn from: lines of JSON, rendered by a model's own chat template, in tokens of which the answers
// are learned and nothing else.
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

struct Conversation {
  std::vector<ChatMessage> messages;
  std::string tools{};  ///< as RenderOptions has them
  std::string where{};  ///< its file and line, for messages
};

/// Whether the first line of the texts is an object with "messages" and without the key `field`, so that they are
/// conversations and no texts. A line that is no JSON is neither.
[[nodiscard]] bool are_conversations(const Documents& documents, const std::string& field);

/// Of each line {"messages": [{"role", "content"}, …]}, as OpenAI's fine-tuning format and TRL have it; messages may
/// have tool_calls, tool_call_id and name, and the object "tools". Other keys of the object are left alone. Throws
/// core::Error with file, line and remedy where a line is none, or has no answer by an assistant.
[[nodiscard]] std::vector<Conversation> read_conversations(const Documents& documents);

/// What a template writes behind an answer only where another turn follows, up to and with the mark of that turn, if
/// generation stops at the mark (Tokenizer::ends_text()): GLM-4's "<|user|>". Empty elsewhere.
[[nodiscard]] std::string mark_of_next_turn(const Tokenizer& tokenizer, const ChatTemplate& chat);

/// Tokens, and for each whether it is an answer's and thus learned. The last one is.
struct ChatExample {
  std::vector<int32_t> tokens;
  std::vector<bool> is_learned;
};

/// How conversations are rendered by a template, and what of them is learned.
class ChatRenderer {
 public:
  /// Both have to outlive it.
  ChatRenderer(const Tokenizer& tokenizer, const ChatTemplate& chat);

  /// What the conversation teaches: its answers, each with what ends a turn (end_of_turn(), or else
  /// mark_of_next_turn(), which the last answer gets, too), in the tokens that
  /// transformers makes of it. Where the template has {% generation %}, that says what an answer is, as transformers'
  /// assistant_masks do. Elsewhere an answer is what the template writes more with it than without it, where it asks
  /// for one. A template may write earlier answers anew, without what was thought for example: each answer is then
  /// learned after the text that it was given after, so one conversation becomes several examples. A token that is half
  /// an answer's is learned. Tools and calls are written as serve writes them (tool_format.h). Throws core::Error,
  /// which begins with `where`, if the template raises an exception, or writes with an answer another text before it
  /// than it does when it asks for one. Threads may call it at the same time.
  [[nodiscard]] std::vector<ChatExample> examples(const Conversation& conversation) const;

  /// Whether an answer is learned with something that generation stops at.
  [[nodiscard]] bool learns_to_stop() const;

  /// The tokens of a conversation that ends with what is to be answered, up to where the answer begins.
  [[nodiscard]] std::vector<int32_t> prompt(const Conversation& conversation) const;

 private:
  [[nodiscard]] ChatWithTools told(const Conversation& conversation) const;

  const Tokenizer& tokenizer_;
  const ChatTemplate& chat_;
  std::string mark_;  ///< end_of_turn()
  std::string next_;  ///< mark_of_next_turn(), where there is no mark_
  mutable std::once_flag once_;
  mutable std::optional<ToolFormat> format_;  ///< found out where the first conversation has tools
};

}  // namespace folio::data
