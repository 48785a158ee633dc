// Trains one model on two processes in each supported way and records losses and what each process holds and sends.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "train/config/train_config.h"
#include "train/parallel/launch.h"
#include "train/parallel/rank_model.h"

namespace folio::experiments {

/// A way to divide the work between two ranks.
struct Division {
  std::string name;
  train::parallel::MeshShape mesh;
  int64_t zero = 0;
  bool of_experts = false;  ///< uses a model with experts
};
[[nodiscard]] std::vector<Division> divisions();

/// Returns 2 layers, width 64, steps of 4 batches of 4 windows. With experts: 4, of which 2 process each token.
[[nodiscard]] train::TrainConfig ranks_config(bool with_experts, uint64_t seed, int64_t steps);

/// A rank's part of a parameter.
struct HeldPart {
  std::string name;
  std::vector<int64_t> shape;  ///< of the part; a dimension of 0 means that another rank holds it
  bool updates;                ///< holds the moments and updates the part
};

/// A rank's state after the last step, in bytes.
struct RankRecord {
  int64_t parameters = 0, gradients = 0, moments = 0;
  int64_t sent = 0;  ///< in the last step
  std::vector<double> losses{};
  std::vector<HeldPart> parts{};
};

/// Trains in all ways as one of two ranks, and writes the records to directory/rank-N.json.
void train_as_rank(const train::parallel::Launch& launch, uint64_t seed, int64_t steps,
                   const std::filesystem::path& directory);
/// Returns records by division, then by rank.
[[nodiscard]] std::vector<std::vector<RankRecord>> read_records(const std::filesystem::path& directory);

/// Returns the losses of training in one process.
[[nodiscard]] std::vector<double> train_alone(const train::TrainConfig& config);

}  // namespace folio::experiments
