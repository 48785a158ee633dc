// Trains one model on two processes with each kind of parallelism. Records the losses, the parts of the model that each
// process holds, and the bytes that it sends.
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

/// A way to divide the work between two ranks: the shape of the mesh of ranks, and the ZeRO stage (0: none).
struct Division {
  std::string name;
  train::parallel::MeshShape mesh;
  int64_t zero = 0;
  bool of_experts = false;  ///< uses a model with experts
};
[[nodiscard]] std::vector<Division> divisions();

/// Returns a configuration of 2 layers of width 64, 4 batches of 4 windows per step, and 4 experts if `with_experts`.
[[nodiscard]] train::TrainConfig ranks_config(bool with_experts, uint64_t seed, int64_t steps);

/// The part of a parameter that a rank stores: all of it, a slice, or nothing.
struct HeldPart {
  std::string name;
  std::vector<int64_t> shape;  ///< shape of the part; contains a 0 if this rank holds none of the parameter
  bool updates;                ///< true if this rank updates the part and holds its moments
};

/// The bytes of parameters, gradients and optimizer moments that a rank stores, the bytes that it sends, its loss in
/// each step, and its parts of the parameters.
struct RankRecord {
  int64_t parameters = 0, gradients = 0, moments = 0;
  int64_t sent = 0;  ///< bytes sent in the last step
  std::vector<double> losses{};
  std::vector<HeldPart> parts{};
};

/// Trains one model for each of divisions(), as one of two ranks. Both must call it. Writes this rank's records to
/// rank-N.json in `directory`, where N is launch.rank.
void train_as_rank(const train::parallel::Launch& launch, uint64_t seed, int64_t steps,
                   const std::filesystem::path& directory);
/// Reads the files that train_as_rank() wrote in both ranks. Returns records[i][rank] for divisions()[i].
[[nodiscard]] std::vector<std::vector<RankRecord>> read_records(const std::filesystem::path& directory);

/// Trains in one process and returns the loss of each step.
[[nodiscard]] std::vector<double> train_alone(const train::TrainConfig& config);

}  // namespace folio::experiments
