// Fuzzes reading a safetensors file. Writes each accepted file again and reads it back.
#include <optional>

#include "core/formats/safetensors.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/tensors.h"

namespace folio::fuzz {
namespace {

// Returns all tensors of a file except those that write_safetensors() adds as padding.
std::vector<core::TensorView> tensors_of(const core::SafetensorsFile& file) {
  std::vector<core::TensorView> tensors = file.tensors();
  std::erase_if(tensors, [](const core::TensorView& t) { return t.name.starts_with("__pad__."); });
  return tensors;
}

}  // namespace

bool take(std::string_view input) {
  const auto path = scratch_file("f.safetensors", input);
  std::optional<core::SafetensorsFile> file;
  if (!accepted([&] { file.emplace(path); }, path.string())) return false;
  touch_tensors(*file);
  for (const auto& [key, value] : file->metadata()) {
    touch(key);
    touch(value);
  }
  const auto once = scratch_path("once.safetensors");
  const auto twice = scratch_path("twice.safetensors");
  core::write_safetensors(once, tensors_of(*file), file->metadata());
  const core::SafetensorsFile again(once);
  check(same_tensors(tensors_of(*file), tensors_of(again)) && again.metadata() == file->metadata(),
        "a rewritten safetensors file has the same tensors and metadata");
  core::write_safetensors(twice, tensors_of(again), again.metadata());
  check(file_bytes(once) == file_bytes(twice), "a safetensors file that is written twice has the same bytes");
  return true;
}

}  // namespace folio::fuzz
