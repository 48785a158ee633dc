// A conversation as a text that grows, as FastLLM's MakeInput and MakeHistory have it, and that text in tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/chat/chat_template.h"
#include "data/tokenizers/tokenizer.h"

namespace folio::infer::fast_llm {

using Chat = std::optional<data::ChatTemplate>;

/// `history`, which is of make_history() and not used in round 0, then what the user says and the beginning of an
/// answer, as the template writes them. Without a template: one text after the other. Throws core::Error if the
/// template has no form for it.
[[nodiscard]] std::string make_input(const data::Tokenizer& tokenizer, const Chat& chat, const std::string& history,
                                     int round, const std::string& input);

/// The same with the answer, up to where the user says something again.
[[nodiscard]] std::string make_history(const data::Tokenizer& tokenizer, const Chat& chat, const std::string& history,
                                       int round, const std::string& input, const std::string& output);

/// With the tokens that the model expects before a text. Special tokens are looked for in all of it if there is a
/// template, since it is those that the template writes.
[[nodiscard]] std::vector<int32_t> encode(const data::Tokenizer& tokenizer, const Chat& chat, std::string_view text);

}  // namespace folio::infer::fast_llm
