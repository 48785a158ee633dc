// Sequences from their prompts to their ends: all prompts in one call, then a token of each at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "infer/engine/engine.h"
#include "infer/sampling/sampler.h"

namespace folio::infer {

struct GenerateOptions {
  int64_t max_tokens = 256;
  int64_t context = 0;  ///< positions that may be used; 0: the model's context length
  bool slide = false;   ///< at the end of the context keep the last half and go on
  std::vector<std::string> stops;
  std::vector<int32_t> end_tokens;  ///< end the text, beside those of the tokenizer's ends_text()
  SamplerOptions sampler;
  std::function<bool()> interrupted;  ///< asked before each token, and within long prompts; may be empty
};

enum class FinishReason { Stop, Length, Interrupted };

[[nodiscard]] std::string_view finish_reason_name(FinishReason reason);

struct GenerateResult {
  std::vector<int32_t> tokens;  ///< generated, without the prompt
  std::string text;             ///< what they say, up to a stop string
  FinishReason finish_reason = FinishReason::Length;
  double prefill_seconds = 0.0;
  double decode_seconds = 0.0;  ///< of all tokens after the first
};

/// Gets the text of prompt `index` as it comes, in whole UTF-8 characters.
using OnText = std::function<void(size_t index, std::string_view text)>;

/// All prompts as one ragged batch; each result is, byte for byte, the one that its prompt gives alone. The times are
/// those of the batch. `on_text` may be empty. Throws core::Error if a prompt is empty or longer than the context, or
/// if the engine's cache cannot hold them all.
[[nodiscard]] std::vector<GenerateResult> generate_batch(Engine& engine, const data::Tokenizer& tokenizer,
                                                         std::span<const std::vector<int32_t>> prompts,
                                                         const GenerateOptions& options, const OnText& on_text = {});

/// One prompt in a sequence of the caller's, whose cache holds the prompt's first tokens, but not all: the others are
/// computed. Afterwards it holds the prompt and what was generated, but for a last token that nothing came after. Where
/// this throws, the sequence has to be truncated to what it had.
GenerateResult generate_on(Engine& engine, const data::Tokenizer& tokenizer, SequenceId sequence,
                           std::span<const int32_t> prompt, const GenerateOptions& options,
                           const std::function<void(std::string_view)>& on_text = {});

/// The same in a sequence of its own.
GenerateResult generate(Engine& engine, const data::Tokenizer& tokenizer, std::span<const int32_t> prompt,
                        const GenerateOptions& options, const std::function<void(std::string_view)>& on_text = {});

}  // namespace folio::infer
