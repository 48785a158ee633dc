// Checkpoints: Hugging Face model directories, or peft directories for LoRA runs, with optimizer.safetensors (optimizer
// state, random generators) and trainer.json. With --ema, the model is the average of the weights, and the trained
// weights are in optimizer.safetensors. Each checkpoint is written under a temporary name, synced and renamed to
// checkpoints/step-NNNNNN/. `last` and `best` are symbolic links, replaced by rename; replacing `last` commits a save.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "data/tokenizers/tokenizer.h"
#include "train/parallel/rank_model.h"
#include "train/run/trainer_state.h"
#include "train/run/weights.h"
#include "train/step/optimizer.h"

namespace folio::train {

/// Returns the environment of this process, with LibTorch's current number of threads.
[[nodiscard]] Environment this_environment();

/// Writes a run's LoRA adapters, or their gradients, as a peft directory. Throws core::Error on failure.
void write_adapter(const std::filesystem::path& directory, const nn::Llama& model, const TrainerState& state,
                   Copied what = Copied::Values);

/// Writes checkpoints/step-NNNNNN with the whole model and optimizer state, gathered from all ranks, through
/// commit_checkpoint(). `average` is null without --ema. Collective. Throws core::Error on failure.
void save_checkpoint(const std::filesystem::path& run, parallel::RankModel& model, parallel::RankModel* average,
                     const Optimizer& optimizer, const TrainerState& state, const data::Tokenizer& tokenizer,
                     const core::GenerationConfig& generation);

/// Loads this rank's part of the weights, of their average (unless null) and of the optimizer state, and the states of
/// the random generators, from a checkpoint whose trainer.json was read into `state`. Throws core::Error if a file is
/// missing or does not fit `state` or the model, or if the checkpoint has optimizer state for other parameters.
void load_checkpoint(const std::filesystem::path& checkpoint, parallel::RankModel& model, parallel::RankModel* average,
                     Optimizer& optimizer, const TrainerState& state);

/// Creates checkpoints/step-NNNNNN with the files that `write` creates in a directory. Then points `last` at it, and
/// `best` if best_step == step, and removes checkpoints that neither link points to. A step that a link points to is
/// not written again. Throws core::Error on failure; `last` then still points to a complete checkpoint.
void commit_checkpoint(const std::filesystem::path& run, int64_t step, int64_t best_step,
                       const std::function<void(const std::filesystem::path&)>& write);

/// Cleans up after a killed save; call it with the run locked, before reading a checkpoint. Points `best` at the best
/// step recorded in `last`, and removes checkpoints that no link points to and temporary files. Throws core::Error if
/// trainer.json of `last` cannot be read or a file cannot be removed.
void recover_checkpoints(const std::filesystem::path& run);

}  // namespace folio::train
