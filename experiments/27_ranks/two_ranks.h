// One model, trained by two processes in each of the ways there are: what each of them holds and sends, and the losses.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "train/parallel/launch.h"
#include "train/parallel/rank_model.h"
#include "train/config/train_config.h"

namespace folio::experiments {

/// A way to divide the work between two ranks.
struct Division {
  std::string name;
  train::parallel::MeshShape mesh;
  int64_t zero = 0;
  bool of_experts = false;  ///< the model is experts_config()
};
[[nodiscard]] std::vector<Division> divisions();

/// 2 layers, width 64; 4 batches of 4 windows make a step. With experts: 4, of which a token takes 2.
[[nodiscard]] train::TrainConfig ranks_config(bool with_experts, uint64_t seed, int64_t steps);

/// What a rank has of a parameter.
struct HeldPart {
  std::string name;
  std::vector<int64_t> shape;  ///< of its part; of one without numbers: it is elsewhere
  bool updates;                ///< it has the moments, and does the update
};

/// A rank, after the last step. Bytes.
struct RankRecord {
  int64_t parameters = 0, gradients = 0, moments = 0;
  int64_t sent = 0;  ///< in the last step
  std::vector<double> losses{};
  std::vector<HeldPart> parts{};
};

/// Trains in all ways as one of two ranks, and writes what it held into directory/rank-N.json.
void train_as_rank(const train::parallel::Launch& launch, uint64_t seed, int64_t steps,
                   const std::filesystem::path& directory);
/// (divisions, ranks)
[[nodiscard]] std::vector<std::vector<RankRecord>> read_records(const std::filesystem::path& directory);

/// The losses of one process.
[[nodiscard]] std::vector<double> train_alone(const train::TrainConfig& config);

}  // namespace folio::experiments
