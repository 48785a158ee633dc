// The messages of a chat as JSON: in a request, or in a line of a dataset.
#pragma once

#include <vector>

#include "core/json.h"
#include "data/chat/chat_template.h"

namespace folio::data {

enum class MessageForm {
  OpenAi,  ///< as in a request to OpenAI's API
  Dataset  ///< as TRL has them, too: calls without an id, and their arguments as an object
};

/// A content is a text, or a list of parts of the type text. Throws core::Error that goes on after the word "messages":
/// "have to be a list of messages".
[[nodiscard]] std::vector<ChatMessage> chat_messages(const nlohmann::json& list, MessageForm form);
[[nodiscard]] std::vector<ChatMessage> chat_messages(const core::OrderedJson& list, MessageForm form);

}  // namespace folio::data
