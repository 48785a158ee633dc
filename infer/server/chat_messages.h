// The messages of a chat request.
#pragma once

#include <vector>

#include "data/chat/chat_template.h"
#include "infer/server/fields.h"

namespace folio::infer::server {

/// Throws ApiError that says what is wrong with "messages".
[[nodiscard]] std::vector<data::ChatMessage> messages_of(const Json* list);

}  // namespace folio::infer::server
