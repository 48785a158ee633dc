// The directory checkpoints/ of a run: how a checkpoint comes to stand there at one instant, and what a kill may leave.
// Each is a new step-NNNNNN/, written under a temporary name, synced and renamed; `last` and `best` are symbolic links
// that are swapped by rename. The swap of `last` is the instant: before it the old checkpoint counts, after it the new.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

namespace folio::train {

/// Makes checkpoints/step-NNNNNN of what `write` puts into the directory that it is given, points `last` at it, and
/// `best` if `best_step` is the step, then removes those that neither names. A step that a link names stands already,
/// whole, and is not written again: equal steps of a run are equal bits. Throws core::Error that says what failed; the
/// checkpoint that `last` named before, or the new one, then stands.
void commit_checkpoint(const std::filesystem::path& run, int64_t step, int64_t best_step,
                       const std::function<void(const std::filesystem::path&)>& write);

/// Puts right what a killed save left, before anything is read: `best` names what the state in `last` says is the best,
/// and whatever no link names is removed. Files of another kind are left alone. Only under the run's lock.
/// Throws core::Error if trainer.json of `last` cannot be read, or something cannot be removed.
void recover_checkpoints(const std::filesystem::path& run);

}  // namespace folio::train
