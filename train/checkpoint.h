// Checkpoints: Hugging Face model directories with the optimizer's state beside the weights.
// Each is a new checkpoints/step-NNNNNN/, written under a temporary name, synced and renamed; `last` and `best` are
// symbolic links that are swapped by rename. A reader sees an old checkpoint or a new one, never half of one.
#pragma once

#include <filesystem>
#include <string>

#include "data/char_tokenizer.h"
#include "modules/llama.h"
#include "train/adamw.h"
#include "train/train_config.h"

namespace folio::train {

/// What a run has to remember beside tensors. Batches are a pure function of (seed, step): the step is their place.
struct TrainerState {
  TrainConfig config;
  std::string corpus;                 ///< its name
  std::string corpus_path;            ///< what load_corpus() takes to find it again
  std::string corpus_digest;          ///< of its bytes: see corpus_digest()
  int64_t step = 0;                   ///< steps that are done
  double best_validation_loss = 0.0;  ///< 0 before the first evaluation
  int64_t best_step = -1;
};

/// 64 bits that name a text, as hexadecimal digits (FNV-1a); told apart from another text, not protected from forgery.
[[nodiscard]] std::string corpus_digest(std::string_view text);

/// Writes checkpoints/step-NNNNNN of the run, points `last` at it, and `best` if the state says that this step is the
/// best, then removes those that neither names. Throws core::Error; what stood there before still does.
void save_checkpoint(const std::filesystem::path& run, const nn::Llama& model, const AdamW& optimizer,
                     const TrainerState& state, const data::CharTokenizer& tokenizer);

/// The state in a checkpoint's trainer.json. Throws core::Error if it is missing or damaged.
[[nodiscard]] TrainerState read_trainer_state(const std::filesystem::path& checkpoint);

/// Loads weights, moments and the random generator from a checkpoint directory.
/// Throws core::Error if a file is missing or does not fit the model.
void load_checkpoint(const std::filesystem::path& checkpoint, nn::Llama& model, AdamW& optimizer,
                     const TrainerState& state);

}  // namespace folio::train
