// What the programs that generate text share: their flags, and what they print of a result.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "apps/program.h"
#include "infer/engine/generate.h"
#include "infer/forms/forms.h"

namespace folio::apps {

/// A flag for each of the sampler's numbers, and --logit-bias.
void add_sampler_flags(Flags& app, infer::SamplerOptions& options);

/// These, and --seed, --speculate, --stop, --context.
void add_generation_flags(Flags& app, infer::GenerateOptions& options);

/// What the parser doesn't see: an empty --stop is an error, and without --seed the seed is a random one.
void complete_generation_options(const Flags& app, infer::GenerateOptions& options);

/// What the model's generation config says of sampling, where no flag does; print_sampler_defaults(), too.
void take_sampler_defaults(const Flags& app, const infer::LoadedModel& model, infer::SamplerOptions& options);

/// What the text has to be. At most one of the flags is given.
struct FormFlags {
  std::string json_schema;  ///< a file
  std::string regex;
  std::string grammar;  ///< a file
  std::vector<std::string> choices;
};
void add_form_flags(Flags& app, FormFlags& flags);
/// For a model's tokenizer; null where no flag is given. Throws core::Error if a file can't be read, and as make_form()
/// does, with the file or the flag before it.
[[nodiscard]] std::shared_ptr<infer::forms::Form> form_of(const Flags& app, const FormFlags& flags,
                                                          const data::Tokenizer& tokenizer);

/// A result as the command line's contract has it: prompt_tokens, tokens, text, finish_reason; of a beam score, too.
[[nodiscard]] nlohmann::ordered_json result_json(const std::vector<int32_t>& prompt,
                                                 const infer::GenerateResult& result);
/// prefill_tokens_per_s and decode_tokens_per_s of so many tokens in the times of `result`.
[[nodiscard]] nlohmann::ordered_json speeds_json(size_t prefilled, size_t decoded, const infer::GenerateResult& result);

/// To stdout, at once.
void print_text(std::string_view text);
/// As one line on stdout; what is no UTF-8 becomes U+FFFD.
void print_json(const nlohmann::ordered_json& json);

}  // namespace folio::apps
