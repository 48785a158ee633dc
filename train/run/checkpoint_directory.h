// The directory checkpoints/ of a run: how a checkpoint is committed atomically, and how an interrupted save is
// repaired. A checkpoint is written to step-NNNNNN/ under a temporary name, synced and renamed. `last` and `best` are
// symbolic links that are replaced by rename. A save takes effect when `last` is replaced.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

namespace folio::train {

/// Creates checkpoints/step-NNNNNN: `write` fills the directory that it is given. Then points `last` at it, and `best`
/// if `best_step` is the step, and removes the checkpoints that neither link names. A step that a link names already is
/// complete and not written again, since equal steps of a run have equal bits. Throws core::Error that says what
/// failed; `last` then names its old checkpoint or the new one, complete in both cases.
void commit_checkpoint(const std::filesystem::path& run, int64_t step, int64_t best_step,
                       const std::function<void(const std::filesystem::path&)>& write);

/// Repairs what a killed save left. Call it before reading, and with the run's lock held. Points `best` at the best
/// step that the state in `last` names, and removes checkpoints and temporary files that no link names; other files
/// stay. Throws core::Error if trainer.json of `last` cannot be read, or something cannot be removed.
void recover_checkpoints(const std::filesystem::path& run);

}  // namespace folio::train
