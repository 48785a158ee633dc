// train's command line: its flags, and where their defaults come from.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/run/run_directory.h"
#include "train/run/train_config.h"

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
  int64_t shared_experts = 0;
  double minutes = 0.0;
  double epochs = 0.0;  ///< > 0: they say how many steps there are
  int threads = 0;
  bool profile = false;
  bool resume = false;
  bool force = false;
  train::TrainConfig config;
  std::optional<train::RunChoice> choice;  ///< with its lock, which a resumed run needs before it reads
};

/// The defaults are the values of the preset, of the model to start from, or of the run to resume. Returns false after
/// --help. Throws as CLI11 does, core::Error or UsageError.
[[nodiscard]] bool parse_train_options(TrainOptions& options, int argc, char** argv);

/// A run's config.toml, which --config takes.
[[nodiscard]] std::string config_toml(const train::TrainConfig& config);

}  // namespace folio::apps
