// train's command line: its flags, and where their defaults come from.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/flags.h"
#include "train/config/train_config.h"
#include "train/parallel/session.h"
#include "train/run/run_directory.h"

namespace folio::apps {

struct TrainOptions {
  std::vector<std::string> datasets;
  std::string field = "text";
  std::string tokens_cache;
  std::string eval;           ///< a file or a folder to validate on
  std::string chat_template;  ///< a name or a file; empty: the model's own
  std::optional<std::string> out;
  std::optional<std::string> init;
  std::optional<std::string> tokenizer;  ///< "bpe:N", or a file
  std::string dump_batches;
  std::string dump_grads;
  std::string trace;  ///< a file; empty: none
  bool profile = false;
  bool resume = false;
  bool force = false;
  train::TrainConfig config;

  std::unique_ptr<Flags> flags;                       ///< bound to the values above
  train::Request request;                             ///< asks the flags
  std::unique_ptr<train::parallel::Session> session;  ///< with the other ranks, if there are any
  std::optional<train::RunChoice> choice;             ///< unless `profile`; locked before a resumed run is read
};

/// The flags, bound to `options`, whose values are the defaults.
[[nodiscard]] std::unique_ptr<Flags> train_flags(TrainOptions& options);

/// Parses again: `first`, which has been parsed, names the preset, the model or the run whose values are the defaults.
/// Finds the other ranks, if the environment specifies any, and chooses the run's directory. Throws core::Error or
/// UsageError.
void complete_options(TrainOptions& options, const TrainOptions& first, int argc, char** argv);

/// A run's config.toml, which --config takes; or all that ranks have to agree on.
[[nodiscard]] std::string config_toml(const train::TrainConfig& config, train::Kept most = train::Kept::InFiles);

/// Ends the process with one line on stderr.
[[noreturn]] void end_rank(const std::string& why, int code);

}  // namespace folio::apps
