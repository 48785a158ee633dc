// Flags and output of the programs that generate text.
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

/// Adds a flag for each field of SamplerOptions::visit_fields(), and --logit-bias.
void add_sampler_flags(Flags& app, infer::SamplerOptions& options);

/// Adds the sampler's flags, and --seed, --stop, --context and --speculate.
void add_generation_flags(Flags& app, infer::GenerateOptions& options);

/// Throws core::UsageError for an empty --stop, and draws a random seed if --seed was not given.
void complete_generation_options(const Flags& app, infer::GenerateOptions& options);

/// Applies the model's sampling defaults to options whose flag was not given, and prints these defaults on stderr.
void take_sampler_defaults(const Flags& app, const infer::LoadedModel& model, infer::SamplerOptions& options);

/// A line of a text file, without its line break.
struct FileLine {
  std::string text;
  std::string where;  ///< prefix of errors, "FILE:LINE: "
};
/// Reads a file of at most 64 MiB, such as one with a prompt per line, and returns its lines that are not empty. Throws
/// core::Error that contains `what`, such as "prompts", if there are none.
[[nodiscard]] std::vector<FileLine> lines_of(const std::string& file, const char* what);

/// Values of the flags for structured output. At most one is given.
struct FormFlags {
  std::string json_schema;  ///< path of a file with the schema
  std::string regex;
  std::string grammar;  ///< path of a file with the grammar
  std::vector<std::string> choices;
};
void add_form_flags(Flags& app, FormFlags& flags);
/// Compiles the given constraint for a model's tokenizer. Returns null if none was given. Throws core::Error that
/// begins with the file or flag if the file cannot be read or make_form() rejects its contents.
[[nodiscard]] std::shared_ptr<infer::forms::Form> form_of(const Flags& app, const FormFlags& flags,
                                                          const data::Tokenizer& tokenizer);

/// Returns the fields that --json prints for a result: prompt_tokens, tokens, text, finish_reason, and a beam's score.
[[nodiscard]] nlohmann::ordered_json result_json(const std::vector<int32_t>& prompt,
                                                 const infer::GenerateResult& result);
/// Returns prefill_tokens_per_s and decode_tokens_per_s: the given numbers of tokens divided by the times in `result`.
[[nodiscard]] nlohmann::ordered_json speeds_json(size_t prefilled, size_t decoded, const infer::GenerateResult& result);

/// Prints `text` to stdout and flushes. Throws core::Error if it cannot be written.
void print_text(std::string_view text);
/// Prints `json` on one line to stdout; invalid UTF-8 becomes U+FFFD.
void print_json(const nlohmann::ordered_json& json);

}  // namespace folio::apps
