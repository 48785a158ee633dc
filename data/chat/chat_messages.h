// Parses chat messages in JSON, from a request or a line of a dataset.
#pragma once

#include <vector>

#include "core/json.h"
#include "data/chat/chat_template.h"

namespace folio::data {

enum class MessageForm {
  OpenAi,  ///< as in OpenAI's API
  Dataset  ///< OpenAI's form or TRL's, in which calls may lack an ID, and arguments may be an object
};

/// Parses messages, whose content is a string or a list of text parts. Throws core::Error whose message completes a
/// sentence that begins with "messages", such as "must be a non-empty list".
[[nodiscard]] std::vector<ChatMessage> chat_messages(const nlohmann::json& list, MessageForm form);
[[nodiscard]] std::vector<ChatMessage> chat_messages(const core::OrderedJson& list, MessageForm form);

}  // namespace folio::data
