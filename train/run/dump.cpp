#include "train/run/dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "core/file_io.h"

namespace folio::train {

namespace {

// The format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
std::string header_of(const std::string& shape) {
  std::string header = fmt::format("{{'descr': '<i4', 'fortran_order': False, 'shape': ({}), }}", shape);
  constexpr size_t kPreamble = 10;
  header.append(63 - (kPreamble + header.size()) % 64, ' ');  // the data begin at a multiple of 64
  header += '\n';
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(header.size() % 256);
  file += static_cast<char>(header.size() / 256);
  return file + header;
}

}  // namespace

void dump_batches(const std::filesystem::path& path, const data::BatchOf& batches, const TrainConfig& c) {
  const int64_t steps = std::min(c.steps, kDumpedSteps);
  const bool has_starts = !batches(0).starts.empty();
  std::string file =
      header_of(fmt::format("{}, {}, {}", steps, c.batch_size * c.accumulation,
                            has_starts ? fmt::format("3, {}", c.window) : fmt::format("{}", c.window + 1)));
  // The machine's own order, which is '<': core/formats/gguf.cpp builds on no other.
  const auto append = [&](const int32_t* tokens, size_t n) {
    file.append(reinterpret_cast<const char*>(tokens), n * sizeof(*tokens));
  };
  for (int64_t number = 0; number < steps * c.accumulation; ++number) {
    const data::Batch batch = batches(static_cast<uint64_t>(number));
    for (int64_t row = 0; row < batch.rows; ++row) {
      const auto first = static_cast<size_t>(row * batch.length), n = static_cast<size_t>(batch.length);
      append(&batch.inputs[first], n);
      if (has_starts) {
        append(&batch.targets[first], n);
        append(&batch.starts[first], n);
      } else {
        append(&batch.targets[first + n - 1], 1);
      }
    }
  }
  core::write_file_atomically(path, file);
}

}  // namespace folio::train
