// Writes a run's batches and the gradients of its first step, for comparison with other implementations.
#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <string>

#include "core/error.h"
#include "core/file_io.h"
#include "core/file_status.h"
#include "train/run/trainer.h"

namespace folio::train {

namespace fs = std::filesystem;

namespace {

// Returns a .npy header: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
std::string numpy_header(const std::string& shape) {
  const std::string fields = fmt::format("{{'descr': '<i4', 'fortran_order': False, 'shape': ({}), }}", shape);
  // The header has 118 bytes, so that the data starts at byte 128, a multiple of 64.
  return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + fmt::format("{:117}\n", fields);
}

void write_batches(const fs::path& path, const data::BatchOf& batches, const TrainConfig& c) {
  const int64_t steps = std::min(c.steps, int64_t{1000});
  const bool has_starts = !batches(0).starts.empty();
  std::string file =
      numpy_header(fmt::format("{}, {}, {}", steps, c.batch_size * c.accumulation,
                               has_starts ? fmt::format("3, {}", c.window) : fmt::format("{}", c.window + 1)));
  for (int64_t number = 0; number < steps * c.accumulation; ++number) {
    const data::Batch batch = batches(static_cast<uint64_t>(number));
    const auto rows_of = [&](const std::vector<int32_t>& tokens) {
      return torch::from_blob(const_cast<int32_t*>(tokens.data()), {batch.rows, batch.length}, torch::kInt32);
    };
    const torch::Tensor inputs = rows_of(batch.inputs), targets = rows_of(batch.targets);
    const torch::Tensor rows = has_starts ? torch::stack({inputs, targets, rows_of(batch.starts)}, 1)
                                          : torch::cat({inputs, targets.slice(1, -1)}, 1);
    // Machine byte order is little-endian ('<'); core/formats/gguf.cpp does not compile elsewhere.
    file.append(static_cast<const char*>(rows.const_data_ptr()), rows.nbytes());
  }
  core::write_file_atomically(path, file);
}

}  // namespace

void Trainer::dump(const fs::path& batches, const fs::path& gradients) {
  if (!batches.empty() && world_->is_first()) write_batches(batches, batches_, config());
  if (!gradients.empty() && world_->is_first() && !frozen_) {  // of adapters, write_gradients() makes the folder
    const fs::path folder = core::absolute_path(gradients).parent_path();
    core::require(core::is_folder(folder), "--dump-grads {}: the folder {} does not exist", gradients.string(),
                  folder.string());
    core::require(!core::is_folder(gradients), "--dump-grads {}: it is a folder, expected a file", gradients.string());
  }
  gradients_path_ = gradients;
}

void Trainer::write_gradients() {
  const nn::Llama whole = model_->whole_gradients();
  if (!world_->is_first()) return;
  if (frozen_) {
    core::make_folders(gradients_path_);
    write_adapter(gradients_path_, whole, state_, Copied::Gradients);
  } else {
    core::write_hf_tensors(gradients_path_, weights_of(whole, Copied::Gradients));
  }
}

}  // namespace folio::train
