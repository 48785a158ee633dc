// train's command line: its flags, and where their defaults come from.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/parallel/session.h"
#include "train/run/run_directory.h"
#include "train/config/train_config.h"
#include "train/run/trainer_state.h"

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
  int64_t shared_experts = 0;
  double minutes = 0.0;
  double epochs = 0.0;  ///< > 0: they say how many steps there are
  int threads = 0;
  bool profile = false;
  bool resume = false;
  bool force = false;
  train::TrainConfig config;
  std::optional<train::RunChoice> choice;  ///< with its lock, which a resumed run needs before it reads
  train::parallel::MeshFlags mesh;
  bool restarted = false;                             ///< by torchrun, after a rank ended
  std::unique_ptr<train::parallel::Session> session;  ///< null: this process is no rank of several
  [[nodiscard]] bool is_first_rank() const { return !session || session->is_first(); }
};

/// Sets the choice of the run's directory as train::choose_run() does; of several ranks the first one chooses.
void choose_run(TrainOptions& options, const std::string& dataset);

/// All that ranks have to agree on, a line for each flag.
[[nodiscard]] std::string flags_of(const TrainOptions& options);

/// Finds the other ranks, if the environment says that there are any. The defaults are the values of the preset, of the
/// model to start from, or of the run to resume. Returns false after
/// --help. Throws core::Error or UsageError.
[[nodiscard]] bool parse_train_options(TrainOptions& options, int argc, char** argv);

/// Ends the process with one line on stderr.
[[noreturn]] void end_rank(const std::string& why, int code);

/// What a run's config.toml has that is neither the checkpoint's nor used now: "lr = 0.1, …", since somebody edited it.
[[nodiscard]] std::string edited_values(const std::filesystem::path& file, const train::TrainerState& saved,
                                        const train::TrainConfig& now);

/// A run's config.toml, which --config takes.
[[nodiscard]] std::string config_toml(const train::TrainConfig& config);

}  // namespace folio::apps
