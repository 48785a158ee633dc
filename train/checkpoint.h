// Checkpoints: Hugging Face model directories with optimizer.safetensors (moments, random generators) and trainer.json
// beside the weights. checkpoint_directory.h says how one comes to stand in a run.
#pragma once

#include <filesystem>

#include "data/tokenizers/tokenizer.h"
#include "modules/llama.h"
#include "train/adamw.h"
#include "train/checkpoint_directory.h"
#include "train/trainer_state.h"

namespace folio::train {

/// This process's.
[[nodiscard]] Environment this_environment();

/// Writes checkpoints/step-NNNNNN of the run as commit_checkpoint() does. Throws core::Error.
void save_checkpoint(const std::filesystem::path& run, const nn::Llama& model, const AdamW& optimizer,
                     const TrainerState& state, const data::Tokenizer& tokenizer);

/// Copies weights, moments and the random generators' states from a checkpoint directory; nothing refers to its files
/// afterwards. Throws core::Error if a file is missing or does not fit the model, and where the checkpoint has moments
/// of other parameters than the optimizer, which leaves the frozen ones out.
void load_checkpoint(const std::filesystem::path& checkpoint, nn::Llama& model, AdamW& optimizer,
                     const TrainerState& state);

}  // namespace folio::train
