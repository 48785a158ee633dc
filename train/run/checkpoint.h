// Checkpoints: Hugging Face model directories with optimizer.safetensors (the optimizer's state, random generators) and
// trainer.json beside the weights. Of a run that trains adapters they are peft's directories. With an average of the
// weights, that is the directory's model, and the weights that training goes on with are in optimizer.safetensors.
// checkpoint_directory.h says how a run's checkpoints are written and replaced.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "modules/llama.h"
#include "train/run/checkpoint_directory.h"
#include "train/step/optimizer.h"
#include "train/run/trainer_state.h"

namespace folio::train {

/// The environment of this process, with LibTorch's number of threads now.
[[nodiscard]] Environment this_environment();

/// What a run's adapters say of themselves (core/adapter.h).
[[nodiscard]] core::AdapterInfo adapter_info(const TrainerState& state);

/// Writes checkpoints/step-NNNNNN of the run as commit_checkpoint() does: the whole model and the whole state of its
/// optimizer. `average` may be empty. Throws core::Error.
void save_checkpoint(const std::filesystem::path& run, const nn::Llama& model,
                     const std::vector<Optimizer::State>& moments, const TrainerState& state,
                     const data::Tokenizer& tokenizer, const nn::Llama& average = nullptr);

/// Of a parameter with this name, or its moments, the part that this process has.
using PartOf = std::function<torch::Tensor(const std::string& parameter, const torch::Tensor& whole)>;

/// Copies weights, their average if it is not empty, the optimizer's state and that of the random generators from a
/// checkpoint directory. Throws core::Error if a file is missing or does not fit the model, and if the checkpoint has a
/// state of other parameters than the optimizer. With `part_of` the optimizer is that of one rank among several: it has
/// parts of some of the moments.
void load_checkpoint(const std::filesystem::path& checkpoint, nn::Llama& model, Optimizer& optimizer,
                     const TrainerState& state, nn::Llama average = nullptr, const PartOf& part_of = {});

}  // namespace folio::train
