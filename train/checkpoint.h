// Checkpoints: Hugging Face model directories with optimizer.safetensors (moments, random generators) and trainer.json
// beside the weights. checkpoint_directory.h says how a run's checkpoints are written and replaced.
#pragma once

#include <filesystem>

#include "data/tokenizers/tokenizer.h"
#include "modules/llama.h"
#include "train/adamw.h"
#include "train/checkpoint_directory.h"
#include "train/trainer_state.h"

namespace folio::train {

/// The environment of this process.
[[nodiscard]] Environment this_environment();

/// Writes checkpoints/step-NNNNNN of the run as commit_checkpoint() does. Throws core::Error.
void save_checkpoint(const std::filesystem::path& run, const nn::Llama& model, const AdamW& optimizer,
                     const TrainerState& state, const data::Tokenizer& tokenizer);

/// Copies weights, moments and the states of the random generators from a checkpoint directory. Throws core::Error if a
/// file is missing or does not fit the model, and if the checkpoint has moments of other parameters than the optimizer,
/// which has none of frozen parameters.
void load_checkpoint(const std::filesystem::path& checkpoint, nn::Llama& model, AdamW& optimizer,
                     const TrainerState& state);

}  // namespace folio::train
