// Parses the flags of train. The defaults of flags come from a preset, a model or a resumed run.
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
  std::string eval;           ///< text file or directory for validation
  std::string chat_template;  ///< name or path of a template; if empty, the model's template is used
  std::optional<std::string> out;
  std::optional<std::string> init;
  std::optional<std::string> tokenizer;  ///< "bpe:N" to train one with N tokens, or a path
  std::string dump_batches;
  std::string dump_grads;
  std::string trace;  ///< path of the output file; if empty, no trace is written
  bool profile = false;
  bool resume = false;
  bool force = false;
  train::TrainConfig config;

  std::unique_ptr<Flags> flags;                           ///< the flags, which store their values in the members above
  train::RunRequest request;                              ///< stores which of `flags` were given
  std::unique_ptr<train::parallel::RankSession> session;  ///< connects the ranks; has one rank without torchrun
  std::optional<train::RunChoice> choice;                 ///< the locked run directory; unset with `profile`
};

/// Returns flags that store their values in `options`, whose current values are the defaults.
[[nodiscard]] std::unique_ptr<Flags> train_flags(TrainOptions& options);

/// Parses the command line a second time, with the defaults of the preset, model or run that is selected in `first`,
/// the result of the first parse. Connects to the other ranks, if the environment specifies any, and chooses the run
/// directory. Throws core::Error or core::UsageError.
void complete_options(TrainOptions& options, const TrainOptions& first, int argc, char** argv);

/// Returns settings as TOML. `most` selects them. Kept::InFiles: the settings of a run's config.toml, which --config
/// reads. Kept::ByRanks: all settings that must be equal on all ranks.
[[nodiscard]] std::string config_toml(const train::TrainConfig& config, train::Kept most = train::Kept::InFiles);

/// Prints `why` as one line on stderr and ends the process with exit code `code`, without running destructors.
[[noreturn]] void end_rank(const std::string& why, int code);

}  // namespace folio::apps
