// Checkpoints: Hugging Face model directories, or peft's where adapters are trained, with optimizer.safetensors (the
// optimizer's state, random generators) and trainer.json. With an average of the weights, that is the directory's
// model, and the weights that are trained are in optimizer.safetensors. In checkpoints/ of a run each is written to
// step-NNNNNN/ under a temporary name, synced and renamed. `last` and `best` are symbolic links that are replaced by
// rename; a save takes effect when `last` is replaced.
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

/// The environment of this process, with LibTorch's current number of threads.
[[nodiscard]] Environment this_environment();

/// Writes a run's adapters, or their gradients, as a peft directory. Throws core::Error.
void write_adapter(const std::filesystem::path& directory, const nn::Llama& model, const TrainerState& state,
                   Copied what = Copied::Values);

/// A collective: writes checkpoints/step-NNNNNN of the run as commit_checkpoint() does, the whole model and the whole
/// state of its optimizer. `average` may be null. Throws core::Error.
void save_checkpoint(const std::filesystem::path& run, parallel::RankModel& model, parallel::RankModel* average,
                     const Optimizer& optimizer, const TrainerState& state, const data::Tokenizer& tokenizer);

/// Copies this rank's part of the weights, of their average if it is not null, and of the optimizer's state, and the
/// state of the random generators from a checkpoint directory. Throws core::Error if a file is missing or does not fit
/// the model, and if the checkpoint has a state of other parameters.
void load_checkpoint(const std::filesystem::path& checkpoint, parallel::RankModel& model, parallel::RankModel* average,
                     Optimizer& optimizer, const TrainerState& state);

/// Creates checkpoints/step-NNNNNN: `write` fills the directory that it is given. Then points `last` at it, and `best`
/// if `best_step` is the step, and removes the checkpoints that neither link names. A step that a link names already is
/// not written again, since equal steps of a run have equal bits. Throws core::Error; `last` then names its old
/// checkpoint or the new one, complete in both cases.
void commit_checkpoint(const std::filesystem::path& run, int64_t step, int64_t best_step,
                       const std::function<void(const std::filesystem::path&)>& write);

/// Repairs what a killed save left, before a checkpoint is read and with the run's lock held. Points `best` at the best
/// step in the state of `last`, and removes checkpoints and temporary files that no link names; other files stay.
/// Throws core::Error if trainer.json of `last` cannot be read, or a file cannot be removed.
void recover_checkpoints(const std::filesystem::path& run);

}  // namespace folio::train
