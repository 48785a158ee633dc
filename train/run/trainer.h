// A run's model, optimizer and data between its steps: what a step is done on (step.h), evaluations, samples,
// checkpoints. run.h has the loop around them. A step depends only on config, corpus, step and checkpoint, so that a
// resumed run repeats the bits of an undisturbed one, if the number of threads was fixed (repeatable.h).
#pragma once

#include <torch/types.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "train/parallel/rank_model.h"
#include "train/run/checkpoint.h"
#include "train/step/dataset.h"
#include "train/step/optimizer.h"
#include "train/step/step.h"

namespace folio::train {

/// prompt.before, and what the engine generates after the prompt: two samples of one prompt differ by their models
/// alone. `adapter` may be null. Changes neither the model nor a random state of training.
[[nodiscard]] std::string sample_text(const core::StoredModel& model, const core::Adapter* adapter,
                                      const data::Tokenizer& tokenizer, const SamplePrompt& prompt);

class Trainer {
 public:
  /// A new model, seeded, or with the weights of `init`, a model in any format that is read here; or with
  /// config.lora_rank, new adapters for `init`, which is mapped and stays as it is. `config.model.vocab_size` is set to
  /// the dataset's. Throws core::Error, if `init` is of another shape for example, or UsageError.
  /// Of several ranks, which train one model together, all make the same calls, each with its own world; any of them
  /// may throw RankLost. A null world is one of this process alone. With CUDA, `gpu` is the number of its GPU.
  Trainer(TrainConfig config, const Dataset& dataset, const std::filesystem::path& init = {},
          parallel::World* world = nullptr, int64_t gpu = 0);

  /// Continues from the checkpoint. Returns its state. Throws core::Error that shows the difference if vocabulary,
  /// corpus, configuration or minutes differ.
  TrainerState resume(const std::filesystem::path& checkpoint);

  /// Writes the batches of config.steps, 1,000 at most, as a NumPy array, int32 [steps, batch_size · accumulation,
  /// window + 1]: the inputs are all columns but the last, the targets all but the first. Where a window has several
  /// sequences, [steps, batch_size · accumulation, 3, window]: inputs, targets, of which -100 do not count, and
  /// Batch::starts. The first step will write its gradients before they are clipped, as safetensors with Hugging Face's
  /// names; those of adapters as a peft directory. An empty path: neither. Throws core::Error.
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

  /// sample_text() of config.sample tokens by shown(). Empty on all ranks except the first.
  [[nodiscard]] std::string sample();

  void save(const std::filesystem::path& run);

  /// With minutes: records how long the last step took, and what was done since the one before: an evaluation, a
  /// checkpoint. After a measurement's last step (kMeasuredSteps), it sets the number of steps, and thereby the end of
  /// the schedule, so that the time left is used, and returns the seconds of a step.
  std::optional<double> measure(double seconds);

  /// This rank's part of the model.
  [[nodiscard]] parallel::RankModel& part() { return *model_; }
  /// Evaluated and saved as the model: the average of its weights, or the model where there is none.
  [[nodiscard]] parallel::RankModel& shown() { return average_ ? *average_ : *model_; }
  /// Of one process, the model.
  [[nodiscard]] nn::Llama& model() { return model_->llama(); }
  [[nodiscard]] const TrainConfig& config() const { return state_.config; }
  [[nodiscard]] const TrainerState& state() const { return state_; }
  [[nodiscard]] int64_t tokens_per_step() const {
    return config().batch_size * config().window * config().accumulation;
  }
  [[nodiscard]] torch::Device device() const { return device_; }
  [[nodiscard]] parallel::World& world() const { return *world_; }
  /// Of several ranks, this one's.
  [[nodiscard]] const Optimizer& optimizer() const { return *optimizer_; }
  /// Records the loss of an evaluation. Returns true if it is the lowest so far.
  bool note_validation_loss(double loss);
  /// Whether the last config.patience evaluations had no better validation loss, so that the run ends.
  [[nodiscard]] bool out_of_patience() const;

 private:
  void write_gradients();

  const Dataset& dataset_;
  TrainerState state_;
  std::optional<parallel::World> alone_;
  parallel::World* world_;
  torch::Device device_;
  std::shared_ptr<const core::StoredModel> frozen_;  ///< with config.lora_rank
  std::unique_ptr<parallel::RankModel> model_;
  std::unique_ptr<parallel::RankModel> average_;  ///< with config.ema
  std::unique_ptr<Optimizer> optimizer_;
  data::BatchOf batches_;                 ///< of training
  std::filesystem::path gradients_path_;  ///< of dump(); empty: none
  bool warm_ = false;                     ///< this process has completed a step; the first one takes longer
};

/// A hash of the names, shapes and types of the tensors, and of the first 64 KiB of each.
[[nodiscard]] std::string model_digest(const core::StoredModel& model);

}  // namespace folio::train
