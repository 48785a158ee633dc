// Functions of all programs: argument parsing, one-line errors, exit codes, and the flags that select a model and the
// hardware that runs it. Exit codes: 0: success; 1: failure; 2: wrong usage; 128 + signal: ended by Ctrl-C (130),
// SIGTERM (143) or SIGHUP (129).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "apps/flags.h"
#include "apps/process.h"
#include "infer/engine/loaded_model.h"
#include "infer/machines/machines.h"

namespace folio::apps {

/// Prepares the process, parses the arguments, runs `body`, flushes stdout and returns the exit code. An exception
/// becomes one line on stderr: "NAME: message".
int run_program(Flags& app, int argc, char** argv, const std::function<int()>& body);

/// Adds --threads, --shards, --device, --gpu-layers, --cache-memory and --fast. Parsing throws core::UsageError if a
/// flag that needs a GPU is given without --device cuda. `--device list` prints the GPUs, or throws core::Error if
/// there is none.
void add_machine_flags(Flags& app, infer::MachineOptions& flags);

/// Parses a size such as 512M or 2GiB, with units that are powers of 1024, and returns the number of bytes, at least 1.
/// If `text` is not such a size, throws core::UsageError that names `flag`.
[[nodiscard]] uint64_t bytes_of(const char* flag, const std::string& text);

/// The values of --model, --cache-type and the flags of add_machine_flags().
struct ModelFlags {
  std::string model;
  infer::LoadOptions load;
  size_t n_stages = 1;  ///< --pipeline-parallel, which add_rank_flags() adds
};
/// Adds the flags of ModelFlags, except --pipeline-parallel, in the groups Model and Hardware.
void add_model_flags(Flags& app, ModelFlags& flags);
/// Opens the model that the flags select. Without --model, opens the newest run's model and prints its path on stderr.
/// On a terminal, loading weights to a GPU shows progress.
[[nodiscard]] infer::LoadedModel open_model(const ModelFlags& flags);

/// Loads the weights. If the engine repacked any, prints the repacked bytes and the time needed on stderr.
void report_repacking(infer::LoadedModel& model);

/// Adds --draft and --draft-model, which require the flag --speculate. The caller must have added --speculate before.
void add_draft_flags(Flags& app, infer::LoadOptions& options);
/// Sets --draft to auto if it was not given and `speculate`, the maximum number of draft tokens of a sequence, is not
/// 0. Also sets machines.max_logit_rows from `speculate` and options.limits.
void complete_draft_source(size_t speculate, infer::LoadOptions& options);

/// Parses PATH[:SCALE]; the default scale is 1. If `text` as a whole is an existing path, a ":" in it belongs to the
/// path. Throws core::UsageError that names `flag` if `text` is empty or the scale is not in [-1000, 1000].
[[nodiscard]] core::AdapterPath adapter_path(const char* flag, const std::string& text);

/// Adds a repeatable flag whose values are parsed by adapter_path().
void add_adapters_flag(Flags& app, const char* flag, std::vector<core::AdapterPath>& adapters, const char* help);

/// Adds --lora PATH[:SCALE] for adapters that all requests use.
void add_lora_flag(Flags& app, infer::LoadOptions& options);

/// Adds --generation-config auto|none|DIR, the source of sampling defaults and end tokens.
void add_generation_config_flag(Flags& app, infer::LoadOptions& options);

/// Prints the sampling defaults of the model's generation config on stderr, if it has any.
void print_sampler_defaults(const infer::LoadedModel& model);

/// Adds --tokenizer, for model files that contain no tokenizer.
void add_tokenizer_flag(Flags& app, std::string& file);

}  // namespace folio::apps
