// A run's model, optimizer and data between its steps: what a step is done on (step.h), evaluations, samples,
// checkpoints. run.h has the loop around them. A step depends only on config, corpus, step and checkpoint, so that a
// resumed run repeats the bits of an undisturbed one, if the number of threads was fixed (repeatable.h).
#pragma once

#include <torch/types.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "train/parallel/rank_model.h"
#include "train/run/checkpoint.h"
#include "train/step/dataset.h"
#include "train/step/optimizer.h"
#include "train/step/step.h"

namespace folio::train {

/// Where `config` trains; with CUDA, on the GPU with this number. Throws core::Error where there is none.
[[nodiscard]] torch::Device device_of(const TrainConfig& config, int64_t number = 0);

class Trainer {
 public:
  /// A new model, seeded; or with config.lora_rank, new adapters for the model file `base`, which is mapped and stays
  /// as it is; without one, `base` is not looked at. `config.model.vocab_size` is set to the dataset's. Throws
  /// core::Error or UsageError.
  /// Of several ranks, which train one model together, all make the same calls, each with its own world; any of them
  /// may throw RankLost. A null world is one of this process alone, and the device is the configuration's.
  Trainer(TrainConfig config, const Dataset& dataset, const std::filesystem::path& base = {},
          parallel::World* world = nullptr, torch::Device device = torch::kCPU);

  /// Trains for this many minutes instead of config.steps; measure() finds the number of steps. Call it before
  /// resume().
  void train_for(double minutes);

  /// Continues from the checkpoint. Throws core::Error that shows the difference if vocabulary, corpus, configuration
  /// or minutes differ.
  void resume(const std::filesystem::path& checkpoint);

  /// Takes the weights of a model in any format that is read here (train --init). Throws core::Error if it is of
  /// another shape.
  void init_from(const std::filesystem::path& model);

  /// Writes the batches of the first steps (dump.h), and lets the first step write its gradients before they are
  /// clipped, as safetensors with Hugging Face's names; those of adapters as a directory of peft's. An empty path: not.
  /// Throws core::Error.
  void dump(const std::filesystem::path& batches, const std::filesystem::path& gradients);

  /// One optimizer step. Throws core::Error, before any weight is changed, if the loss or a gradient is not finite.
  StepResult step();

  /// Whether a step on so many threads has the bits of one on as many as now: computes the gradients of the next step's
  /// first batch on both. False without a look for several ranks, CUDA, bf16 (whose roundings hide most differences)
  /// and GaLore (whose subspaces depend on the number).
  [[nodiscard]] bool repeats_with(int threads);

  struct Evaluation {
    std::optional<double> train;  ///< with eval_batches > 0
    double validation;
    std::optional<double> expert_load{};  ///< of a model with experts on the validation split: largest_load()
  };
  [[nodiscard]] Evaluation evaluate();

  /// A text of config.sample tokens by the model, or the average of its weights; see sample.h. Of several ranks the
  /// first one has it.
  [[nodiscard]] std::string sample();

  void save(const std::filesystem::path& run);

  /// With minutes: records how long the last step took, and what was done since the one before: an evaluation, a
  /// checkpoint. After a measurement's last step (kMeasuredSteps), it sets the number of steps, and thereby the end of
  /// the schedule, so that the time left is used, and returns the seconds of a step.
  std::optional<double> measure(double seconds);

  /// This rank's part of the model.
  [[nodiscard]] parallel::RankModel& part() { return *model_; }
  /// Of one process, the model; and what is evaluated and saved as the model: the average of its weights, or where
  /// there is none, the model.
  [[nodiscard]] nn::Llama& model() { return model_->llama(); }
  [[nodiscard]] nn::Llama& shown_model() { return shown().llama(); }
  [[nodiscard]] const TrainConfig& config() const { return state_.config; }
  [[nodiscard]] const TrainerState& state() const { return state_; }
  [[nodiscard]] int64_t tokens_per_step() const;
  [[nodiscard]] torch::Device device() const { return device_; }
  [[nodiscard]] parallel::World& world() const { return *world_; }
  /// Of several ranks, this one's.
  [[nodiscard]] const Optimizer& optimizer() const { return *optimizer_; }
  /// Records the loss of an evaluation. Returns true if it is the lowest so far.
  bool note_validation_loss(double loss);
  /// Whether the last config.patience evaluations had no better validation loss, so that the run ends.
  [[nodiscard]] bool out_of_patience() const;

 private:
  [[nodiscard]] parallel::RankModel& shown() { return average_ ? *average_ : *model_; }
  [[nodiscard]] std::vector<data::Batch> batches_of_step() const;
  void begin_average();
  void write_gradients(const std::filesystem::path& path);

  const Dataset& dataset_;
  TrainerState state_;
  Environment environment_ = this_environment();  ///< with the run's number of threads; step_threads.h may take fewer
  std::optional<parallel::World> alone_;
  parallel::World* world_;
  torch::Device device_;
  std::shared_ptr<const lora::FrozenWeights> frozen_;  ///< with config.lora_rank
  std::unique_ptr<parallel::RankModel> model_;
  std::unique_ptr<parallel::RankModel> average_;  ///< with config.ema
  std::unique_ptr<Optimizer> optimizer_;
  data::BatchOf batches_;                 ///< of training
  std::filesystem::path gradients_path_;  ///< of dump(); empty: none
  bool warm_ = false;                     ///< this process has completed a step; the first one takes longer
};

}  // namespace folio::train
