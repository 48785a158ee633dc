// Fuzzes reading an adapter in a GGUF file. Writes accepted adapters to files, if possible, and reads them back.
#include <algorithm>
#include <cmath>

#include "core/formats/adapter_files.h"
#include "tests/fuzz/adapters.h"
#include "tests/fuzz/fuzz.h"

namespace folio::fuzz {
namespace {

// Checks that reading a written adapter gives the same adapter. Skips adapters whose parts differ in rank or scale,
// because write_gguf_adapter() writes one rank and one alpha for all parts.
void rewrite(const core::Adapter& adapter, const core::ModelConfig& config) {
  const core::Adapter::Part& first = adapter.parts.front();
  core::AdapterInfo info{.rank = static_cast<int64_t>(first.rank),
                         .alpha = static_cast<double>(first.scale) * static_cast<double>(first.rank),
                         .dropout = 0,
                         .targets = {},
                         .base = ""};
  for (const core::Adapter::Part& part : adapter.parts) {
    if (part.rank != first.rank || part.scale != first.scale) return;
    if (std::ranges::find(info.targets, part.role) == info.targets.end()) info.targets.push_back(part.role);
  }
  std::ranges::sort(info.targets);
  const auto again = scratch_path("again.gguf");
  if (!accepted([&] { core::write_gguf_adapter(again, config, adapter, info, core::DType::F32, "a name"); },
                again.string())) {
    return;
  }
  core::Adapter read = core::read_gguf_adapter(again, config);
  for (size_t i = 0; i < std::min(read.parts.size(), adapter.parts.size()); ++i) {
    // A scale may change by rounding: the file stores alpha as a float, which the reader divides by the rank.
    const float scale = adapter.parts[i].scale;
    check(std::abs(read.parts[i].scale - scale) <= std::abs(scale) * 0x1p-22F + 0x1p-140F,
          "a scale is read as written");
    read.parts[i].scale = scale;
  }
  check(same_parts(read, adapter), "an adapter is read as it was written");
}

}  // namespace

bool take(std::string_view input) {
  const core::ModelConfig config = adapted_config();
  const auto path = scratch_file("adapter.gguf", input);
  core::Adapter adapter;
  if (!accepted([&] { adapter = core::read_gguf_adapter(path, config); }, path.string())) return false;
  look_at(adapter);
  rewrite(adapter, config);
  return true;
}

}  // namespace folio::fuzz
