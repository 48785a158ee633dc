// Texts from prompts: a request for each, and steps until all have ended.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "infer/engine/engine.h"

namespace folio::infer {

/// Gets the texts of prompt `index` as they come, in whole UTF-8 characters.
using OnText = std::function<void(size_t index, std::string_view text)>;

/// Asked before each step whether to end; may be empty.
using Interrupted = std::function<bool()>;

/// Steps until no request is left, or until `interrupted` says so: then the requests `ids` are cancelled.
void run(Engine& engine, std::span<const RequestId> ids, const Interrupted& interrupted = {});

/// All prompts together; each result is, byte for byte, the one that its prompt gives alone. Of each prompt there are
/// options.n, one after the other. `on_text` and `interrupted` may be empty. Throws core::Error as Engine::add does.
[[nodiscard]] std::vector<GenerateResult> generate_batch(Engine& engine, const data::Tokenizer& tokenizer,
                                                         std::span<const std::vector<int32_t>> prompts,
                                                         const GenerateOptions& options, const OnText& on_text = {},
                                                         const Interrupted& interrupted = {});

/// One prompt.
GenerateResult generate(Engine& engine, const data::Tokenizer& tokenizer, std::span<const int32_t> prompt,
                        const GenerateOptions& options, const std::function<void(std::string_view)>& on_text = {},
                        const Interrupted& interrupted = {});

}  // namespace folio::infer
