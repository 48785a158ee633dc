// What every program shares: parsing with one-line errors, exit codes, signals.
// Exit codes: 0 done; 1 failed; 2 wrong usage; 128 + signal: ended by Ctrl-C (130), SIGTERM (143) or SIGHUP (129).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/flags.h"
#include "apps/machines.h"
#include "apps/process.h"
#include "infer/engine/loaded_model.h"

namespace folio::apps {

/// Prepares the process, parses the arguments, runs `body`, flushes stdout and returns the exit code. Errors become one
/// line on stderr: "NAME: what, …".
int run_program(Flags& app, int argc, char** argv, const std::function<int()>& body);

/// -m/--model, --cache-type and those of its machines. Where no model is named, resolve_model() takes the newest run's
/// and says so on stderr.
struct ModelFlags {
  std::string model;
  infer::LoadOptions load;
};
void add_model_flags(Flags& app, ModelFlags& flags);
[[nodiscard]] std::string resolve_model(const ModelFlags& flags);

/// The model that the flags name. Shows on a terminal how far the weights' way to a GPU is.
[[nodiscard]] infer::LoadedModel open_model(const ModelFlags& flags);

/// Loads the weights, and says on stderr what was repacked and how long that took, where it was.
void report_repacking(infer::LoadedModel& model);

/// After --speculate, which it needs.
void add_draft_flag(Flags& app, std::string& file);

/// PATH[:SCALE], as `flag` takes it: where the whole text is the name of something, there is no scale in it. Throws
/// core::UsageError.
[[nodiscard]] core::AdapterPath adapter_path(const char* flag, const std::string& text);

/// A flag that takes PATH[:SCALE], perhaps several times, as adapter_path() does.
void add_adapters_flag(Flags& app, const char* flag, std::vector<core::AdapterPath>& adapters, const char* help);

/// --lora PATH[:SCALE], perhaps several. Requests take the model's adapter().
void add_lora_flag(Flags& app, infer::LoadOptions& options);

/// --generation-config auto|none|DIR.
void add_generation_config_flag(Flags& app, infer::LoadOptions& options);

/// Says on stderr what the model's generation config makes the defaults of sampling, if anything.
void print_sampler_defaults(const infer::LoadedModel& model);

/// --tokenizer, for models that have none in them.
void add_tokenizer_flag(Flags& app, std::string& file);

}  // namespace folio::apps
