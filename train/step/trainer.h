// One training step and one evaluation: batches, backward, clipping, the optimizer. run.h has the loop around them.
// A step depends only on config, corpus, step and checkpoint, so that a resumed run repeats the bits of an undisturbed
// one, if the number of threads was fixed (repeatable.h).
#pragma once

#include <torch/types.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "data/corpus.h"
#include "data/document_tokens.h"
#include "train/run/checkpoint.h"
#include "train/step/evaluate.h"
#include "train/step/optimizer.h"

namespace folio::train {

/// A text, or documents, as a trainer uses them: tokens, cut into splits.
class Dataset {
 public:
  /// Without a tokenizer, each character of the text is a token. Throws core::Error where the tokenizer has no tokens
  /// for the text, or a split is shorter than a window.
  Dataset(const data::Corpus& corpus, const TrainConfig& config,
          std::unique_ptr<const data::Tokenizer> tokenizer = nullptr);
  /// The same for texts of any size. `summary` is that of `texts`.
  Dataset(const data::TextFiles& texts, const data::DocumentsSummary& summary, const TrainConfig& config,
          std::unique_ptr<const data::Tokenizer> tokenizer, const data::DocumentTokens::Options& options);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const std::string& field() const { return field_; }
  [[nodiscard]] int64_t bytes() const { return bytes_; }
  [[nodiscard]] const std::string& digest() const { return digest_; }
  [[nodiscard]] const data::Tokenizer& tokenizer() const { return *tokenizer_; }
  [[nodiscard]] const data::SplitsOf<data::TokenView>& splits() const { return splits_; }
  /// Where windows end, as the configuration says.
  [[nodiscard]] data::DocumentEnd document_end(const TrainConfig& config) const {
    return config.across_documents ? data::DocumentEnd() : tokenizer_->end_of_text();
  }

 private:
  std::string name_;
  std::string path_;
  std::string field_ = "text";
  int64_t bytes_;
  std::string digest_;
  std::unique_ptr<const data::Tokenizer> tokenizer_;
  std::vector<int32_t> tokens_;                          ///< of a corpus
  std::optional<data::DocumentTokens> document_tokens_;  ///< or of texts
  data::SplitsOf<data::TokenView> splits_;
};

struct StepResult {
  double loss;       ///< nats, the mean over the step's tokens
  double grad_norm;  ///< of all gradients together, before clipping
};

class Trainer {
 public:
  /// A new model, seeded. `config.model.vocab_size` is set to the dataset's. Throws core::Error or UsageError.
  Trainer(TrainConfig config, const Dataset& dataset);

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
  /// clipped, as safetensors with Hugging Face's names. An empty path: not. Throws core::Error.
  void dump(const std::filesystem::path& batches, const std::filesystem::path& gradients);

  /// One optimizer step. Throws core::Error, before any weight is changed, if the loss or a gradient is not finite.
  StepResult step();

  struct Evaluation {
    std::optional<double> train;  ///< with eval_batches > 0
    double validation;
  };
  [[nodiscard]] Evaluation evaluate();

  /// A text of config.sample tokens by shown_model(); see sample.h.
  [[nodiscard]] std::string sample() const;

  void save(const std::filesystem::path& run);

  /// With minutes: records how long the last step took, and what was done since the one before: an evaluation, a
  /// checkpoint. After a measurement's last step (kMeasuredSteps), it sets the number of steps, and thereby the end of
  /// the schedule, so that the time left is used, and returns the seconds of a step.
  std::optional<double> measure(double seconds);

  [[nodiscard]] nn::Llama& model() { return model_; }
  /// What is evaluated and saved as the model: the average of the weights, or where there is none, model().
  [[nodiscard]] nn::Llama& shown_model() { return average_.is_empty() ? model_ : average_; }
  [[nodiscard]] const nn::Llama& shown_model() const { return average_.is_empty() ? model_ : average_; }
  [[nodiscard]] const TrainConfig& config() const { return state_.config; }
  [[nodiscard]] const TrainerState& state() const { return state_; }
  [[nodiscard]] int64_t tokens_per_step() const;
  [[nodiscard]] torch::Device device() const { return device_; }
  /// Records the loss of an evaluation. Returns true if it is the lowest so far.
  bool note_validation_loss(double loss);
  /// Whether the last config.patience evaluations had no better validation loss, so that the run ends.
  [[nodiscard]] bool out_of_patience() const;

 private:
  const Dataset& dataset_;
  TrainerState state_;
  torch::Device device_;
  nn::Llama model_{nullptr};
  nn::Llama average_{nullptr};  ///< with config.ema
  std::unique_ptr<Optimizer> optimizer_;
  data::BatchSampler sampler_;
  std::filesystem::path gradients_path_;  ///< of dump(); empty: none
  bool warm_ = false;                     ///< this process has completed a step; the first one takes longer
};

}  // namespace folio::train
