#include "infer/server/chat_messages.h"

#include "core/error.h"
#include "data/chat/chat_messages.h"

namespace folio::infer::server {

std::vector<data::ChatMessage> messages_of(const Json* list) {
  try {
    return data::chat_messages(list == nullptr ? Json() : *list, data::MessageForm::OpenAi);
  } catch (const core::Error& error) {
    refuse("messages", error.what());
  }
}

}  // namespace folio::infer::server
