// OpenAI's Responses API over that of chats: a request becomes a chat's, and the answer is written as its items and
// events. Nothing is stored, so a request brings the whole conversation. Source: OpenAI's API reference, "Responses".
#pragma once

#include "infer/server/api.h"

namespace folio::infer::server {

/// As parse_chat(). What needs a stored state ("store": true, previous_response_id, …) is rejected by name.
[[nodiscard]] CompletionRequest parse_response(const Json& body, const ServedModel& served, uint64_t random_seed,
                                               std::string_view text = {}, const ParseOptions& options = {});

}  // namespace folio::infer::server
