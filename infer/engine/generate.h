// Generates completions of prompts: adds one request per prompt to the engine, and runs steps until all have ended.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "infer/engine/engine.h"

namespace folio::infer {

/// Receives the output of prompt `index` as it is generated, in whole UTF-8 characters. If options.n > 1, the
/// texts of the prompt's completions arrive mixed.
using OnText = std::function<void(size_t index, std::string_view text)>;

/// Called before each step; returns true to stop. May be empty.
using Interrupted = std::function<bool()>;

/// Runs steps until all requests have ended. If `interrupted` returns true, cancels the requests `ids`.
void run(Engine& engine, std::span<const RequestId> ids, const Interrupted& interrupted = {});

/// Generates options.n completions of each prompt, all in one batch. Returns the completions of the first prompt, then
/// those of the second, and so on. A prompt's completions do not depend on the other prompts. `on_text` and
/// `interrupted` may be empty. Throws core::Error if a prompt or an option is invalid (see Engine::add).
[[nodiscard]] std::vector<GenerateResult> generate_batch(Engine& engine, const data::Tokenizer& tokenizer,
                                                         std::span<const std::vector<int32_t>> prompts,
                                                         const GenerateOptions& options, const OnText& on_text = {},
                                                         const Interrupted& interrupted = {});

/// Generates a completion of one prompt, as generate_batch() does. If options.n > 1, returns only the first.
GenerateResult generate(Engine& engine, const data::Tokenizer& tokenizer, std::span<const int32_t> prompt,
                        const GenerateOptions& options, const std::function<void(std::string_view)>& on_text = {},
                        const Interrupted& interrupted = {});

}  // namespace folio::infer
