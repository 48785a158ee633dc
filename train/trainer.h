// One training step and one evaluation: batches, backward, clipping, AdamW. run.h has the loop around them.
// What a step computes depends on (config, corpus, step) and the checkpoint alone, so a resumed run repeats the bits.
#pragma once

#include <torch/types.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "data/corpus.h"
#include "train/adamw.h"
#include "train/checkpoint.h"
#include "train/evaluate.h"

namespace folio::train {

/// A corpus as a trainer uses it: characters as tokens, cut into splits.
class Dataset {
 public:
  Dataset(data::Corpus corpus, const TrainConfig& config);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int64_t bytes() const { return bytes_; }
  [[nodiscard]] const std::string& digest() const { return digest_; }
  [[nodiscard]] const data::CharTokenizer& tokenizer() const { return tokenizer_; }
  [[nodiscard]] const data::Splits& splits() const { return splits_; }

 private:
  std::string name_;
  std::string path_;
  int64_t bytes_;
  std::string digest_;
  data::CharTokenizer tokenizer_;
  std::vector<int32_t> tokens_;
  data::Splits splits_;
};

struct StepResult {
  double loss;       ///< nats, the mean over the step's tokens
  double grad_norm;  ///< of all gradients together, before clipping
};

/// With minutes, the speed is measured over so many steps; the learning rate may only rise until then.
inline constexpr int64_t kMeasuredSteps = 20;

class Trainer {
 public:
  /// A new model, seeded. `config.model.vocab_size` is set to the dataset's. Throws core::Error or UsageError.
  Trainer(TrainConfig config, const Dataset& dataset);

  /// In place of config.steps: so many minutes of steps, once measure() knows their number. Before resume().
  void train_for(double minutes);

  /// Continues the checkpoint. Throws core::Error that shows the difference if vocabulary, corpus, configuration or
  /// minutes differ.
  void resume(const std::filesystem::path& checkpoint);

  /// Takes the weights of a Hugging Face directory (train --init). Throws core::Error if it is of another shape.
  void init_from(const std::filesystem::path& directory);

  /// One optimizer step. Throws core::Error, before any weight is changed, if the loss or a gradient is not finite.
  StepResult step();

  struct Evaluation {
    std::optional<double> train;  ///< with eval_batches > 0
    double validation;
  };
  [[nodiscard]] Evaluation evaluate();

  void save(const std::filesystem::path& run);

  /// With minutes: takes note of how long the step took that was just done. True after step kMeasuredSteps, when the
  /// number of steps, and with it the end of the schedule, is set.
  bool measure(double seconds);

  [[nodiscard]] nn::Llama& model() { return model_; }
  [[nodiscard]] const TrainConfig& config() const { return state_.config; }
  [[nodiscard]] const TrainerState& state() const { return state_; }
  [[nodiscard]] int64_t tokens_per_step() const;
  /// Notes an evaluation's loss; true if it is the best so far.
  bool note_validation_loss(double loss);

 private:
  const Dataset& dataset_;
  TrainerState state_;
  torch::Device device_;
  nn::Llama model_{nullptr};
  std::unique_ptr<AdamW> optimizer_;
  data::BatchSampler sampler_;
  bool warm_ = false;  ///< this process has done a step; its first takes longer
};

}  // namespace folio::train
