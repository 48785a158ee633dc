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

/// What Request has, for all prompts of a call.
struct GenerateOptions {
  int64_t max_tokens = 256;
  int64_t context = 0;
  bool slide = false;
  std::vector<std::string> stops;
  std::vector<int32_t> end_tokens;
  SamplerOptions sampler;
  size_t speculate = 0;
  std::function<bool()> interrupted;  ///< asked before each step; may be empty
};

/// Gets the text of prompt `index` as it comes, in whole UTF-8 characters.
using OnText = std::function<void(size_t index, std::string_view text)>;

/// Steps until no request is left, or until `interrupted` says so: then the requests `ids` are cancelled.
void run(Engine& engine, std::span<const RequestId> ids, const std::function<bool()>& interrupted = {});

/// All prompts together; each result is, byte for byte, the one that its prompt gives alone. `on_text` may be empty.
/// Throws core::Error as Engine::add does.
[[nodiscard]] std::vector<GenerateResult> generate_batch(Engine& engine, const data::Tokenizer& tokenizer,
                                                         std::span<const std::vector<int32_t>> prompts,
                                                         const GenerateOptions& options, const OnText& on_text = {});

/// One prompt.
GenerateResult generate(Engine& engine, const data::Tokenizer& tokenizer, std::span<const int32_t> prompt,
                        const GenerateOptions& options, const std::function<void(std::string_view)>& on_text = {});

}  // namespace folio::infer
