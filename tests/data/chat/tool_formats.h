// The formats of tool calls of two model families, as data::tool_format() detects them in the chat templates.
#pragma once

#include "data/chat/tool_format.h"

namespace folio::data::test {

inline ToolFormat hermes() {
  return {.opening = "<tool_call>\n{\"name\": \"",
          .trigger = "<tool_call>",
          .call = {{.kind = CallPiece::Kind::Name},
                   {.kind = CallPiece::Kind::Text, .text = "\", \"arguments\": "},
                   {.kind = CallPiece::Kind::Arguments}},
          .several = true,
          .separator = "}\n</tool_call>\n<tool_call>\n{\"name\": \"",
          .closing = "}\n</tool_call>"};
}

inline ToolFormat llama() {
  return {.opening = "{\"name\": \"",
          .trigger = "{\"name\": \"",
          .only_at_start = true,
          .call = {{.kind = CallPiece::Kind::Name},
                   {.kind = CallPiece::Kind::Text, .text = "\", \"parameters\": "},
                   {.kind = CallPiece::Kind::Arguments}},
          .closing = "}"};
}

}  // namespace folio::data::test
