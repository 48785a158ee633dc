// A run's model, optimizer and data, with operations for a step (step.h), evaluations, samples and checkpoints; run.h
// has the loop. A step depends only on configuration, corpus, step number and checkpoint, so a resumed run is bitwise
// equal to an uninterrupted one if the number of threads is fixed (repeatable.h).
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

/// Returns prompt.before followed by a completion that the engine generates, or "" if prompt.tokens is empty.
/// `adapter` may be null: no adapter. Deterministic. Changes neither the model nor the random generators of training.
[[nodiscard]] std::string sample_text(const core::StoredModel& model, const core::Adapter* adapter,
                                      const data::Tokenizer& tokenizer, const SamplePrompt& prompt);

class Trainer {
 public:
  /// Creates a model with random weights from config.seed, or with the weights of `init` in any supported format. With
  /// config.lora_rank, creates adapters for the memory-mapped model `init`. Sets config.model.vocab_size from the
  /// dataset. `world` is null for a single process. With several ranks, all must make the same calls, and each call may
  /// throw RankLost. `gpu` is the device index for CUDA. Throws core::UsageError for an invalid configuration, and
  /// core::Error for other failures, for example if `init` has another shape.
  Trainer(TrainConfig config, const Dataset& dataset, const std::filesystem::path& init = {},
          parallel::World* world = nullptr, int64_t gpu = 0);

  /// Loads a checkpoint to continue from, and returns its state. Throws core::Error that shows the difference if the
  /// vocabulary, corpus, base model or a setting that must stay the same, such as --minutes, differs.
  TrainerState resume(const std::filesystem::path& checkpoint);

  /// Writes the batches of all steps (at most 1,000) to a NumPy file, int32 [steps, batch_size · accumulation, window +
  /// 1]: inputs are all columns except the last, targets all except the first. With packed sequences, int32 [steps,
  /// batch_size · accumulation, 3, window]: inputs, targets (-100: ignored) and Batch::starts. The first step writes
  /// its unclipped gradients to the path `gradients`: safetensors with Hugging Face names, or a peft directory for
  /// adapters. Nothing is written for an empty path. Throws core::Error on failure.
  void dump(const std::filesystem::path& batches, const std::filesystem::path& gradients);

  /// Runs one optimizer step. Throws core::Error, before any weight changes, if the loss or a gradient is not finite.
  StepResult step();

  /// Returns true if `threads` threads compute the same bits as the current number: compares the gradients of the next
  /// step's first batch. Always returns false for several ranks, CUDA, bf16 (its rounding hides differences) and
  /// GaLore.
  [[nodiscard]] bool repeats_with(int threads);

  struct Evaluation {
    std::optional<double> train;  ///< loss of random training batches; set if eval_batches > 0
    double validation;
    std::optional<double> expert_load{};  ///< rows of the most loaded expert / mean, in validation; one rank only
  };
  [[nodiscard]] Evaluation evaluate();

  /// Returns sample_text() for the dataset's sample prompt: up to config.sample tokens, generated with the model
  /// shown(). Returns "" on ranks other than 0. Collective.
  [[nodiscard]] std::string sample();

  void save(const std::filesystem::path& run);

  /// With --minutes, records `seconds`, the time since the end of the previous step, including evaluations and
  /// checkpoints. At the end of a measurement (kMeasuredSteps), sets the number of steps, and thus the end of the
  /// schedule, to fit the remaining time, and returns the seconds per step. Otherwise returns nullopt.
  std::optional<double> measure(double seconds);

  /// Returns this rank's part of the model.
  [[nodiscard]] parallel::RankModel& part() { return *model_; }
  /// Returns the model that is evaluated and saved: the average of the weights with --ema, else part().
  [[nodiscard]] parallel::RankModel& shown() { return average_ ? *average_ : *model_; }
  /// Returns the whole model; valid only for a single process.
  [[nodiscard]] nn::Llama& model() { return model_->llama(); }
  [[nodiscard]] const TrainConfig& config() const { return state_.config; }
  [[nodiscard]] const TrainerState& state() const { return state_; }
  [[nodiscard]] int64_t tokens_per_step() const {
    return config().batch_size * config().window * config().accumulation;
  }
  [[nodiscard]] torch::Device device() const { return device_; }
  [[nodiscard]] parallel::World& world() const { return *world_; }
  /// Returns this rank's optimizer, which has only the state of the parameters that this rank updates.
  [[nodiscard]] const Optimizer& optimizer() const { return *optimizer_; }
  /// Records the loss of an evaluation. Returns true if it is finite and the lowest so far.
  bool note_validation_loss(double loss);
  /// Returns true if patience > 0 and the validation loss has not improved in the last `patience` evaluations.
  [[nodiscard]] bool out_of_patience() const;

 private:
  void write_gradients();

  const Dataset& dataset_;
  TrainerState state_;
  std::optional<parallel::World> alone_;
  parallel::World* world_;
  torch::Device device_;
  std::shared_ptr<const core::StoredModel> frozen_;  ///< base model of adapters; null without config.lora_rank
  std::unique_ptr<parallel::RankModel> model_;
  std::unique_ptr<parallel::RankModel> average_;  ///< null without config.ema
  std::unique_ptr<Optimizer> optimizer_;
  core::GenerationConfig generation_;     ///< that of --init, stored in the checkpoints
  data::BatchOf batches_;                 ///< training batches
  std::filesystem::path gradients_path_;  ///< file for the first step's gradients (dump()); empty: none
  bool warm_ = false;                     ///< false until this process's first step, which is slower, has completed
};

/// Returns a hash of the tensors' names, shapes and types, and of the first 64 KiB of each.
[[nodiscard]] std::string model_digest(const core::StoredModel& model);

}  // namespace folio::train
