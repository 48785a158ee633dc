// Parses chat messages in JSON, from a request or a line of a dataset.
#pragma once

#include <vector>

#include "core/json.h"
#include "data/chat/chat_template.h"

namespace folio::data {

enum class MessageForm {
  OpenAi,  ///< as in OpenAI's API
  Dataset  ///< OpenAI's or TRL's form; call IDs may be missing, and arguments may be an object, not a string
};

/// Parses messages whose content is a string or a list of text parts. Throws core::Error if they are invalid. The error
/// text, such as "must be a non-empty list", has no subject: the caller must prepend the word "messages".
[[nodiscard]] std::vector<ChatMessage> chat_messages(const core::OrderedJson& list, MessageForm form);

}  // namespace folio::data
