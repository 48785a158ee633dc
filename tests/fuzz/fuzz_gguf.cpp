// Fuzzes reading a GGUF file: its metadata, tensors and model. Writes each accepted file and reads it back.
#include <optional>

#include "core/error.h"
#include "core/file_io.h"
#include "core/formats/gguf_model.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/tensors.h"

namespace folio::fuzz {
namespace {

std::filesystem::path written(const std::string& name, const core::GgufMetadata& metadata,
                              const std::vector<core::TensorView>& tensors) {
  core::OutputFile out(scratch_path(name));
  core::write_gguf(out, metadata, tensors);
  out.flush();
  return scratch_path(name);
}

void look_at(const core::GgufFile& file) {
  touch_tensors(file);
  const std::string where = file.path().string();
  for (size_t i = 0; i < file.metadata().size(); ++i) {
    const auto& [key, value] = file.metadata()[i];
    check(file.find(key) == &value, "a key is found by its name");
    if (core::printable(key) != key) continue;  // unprintable keys are never looked up
    accepted(
        [&] {
          // Reads each key as only one type, because a wrong type throws, and exceptions are slow.
          if (i % 5 == 0) static_cast<void>(file.integer(key));
          if (i % 5 == 1) static_cast<void>(file.real(key));
          if (i % 5 == 2) static_cast<void>(file.boolean(key));
          if (i % 5 == 3) touch(file.string(key));
          if (i % 5 == 4) static_cast<void>(file.list<std::string>(key));
        },
        where);
  }
}

// Checks that a rewritten file has equal tensors, and that rewriting it again gives the same bytes.
void rewrite(const core::GgufFile& file) {
  const core::GgufFile again(written("once.gguf", file.metadata(), file.tensors()));
  check(same_tensors(file.tensors(), again.tensors()), "a rewritten GGUF has the same tensors");
  written("twice.gguf", again.metadata(), again.tensors());
  check(file_bytes(scratch_path("once.gguf")) == file_bytes(scratch_path("twice.gguf")),
        "a GGUF that is written twice has the same bytes");
}

bool take_model(const core::GgufFile& file) {
  core::ModelConfig config;
  std::vector<core::TensorView> tensors;
  std::vector<std::shared_ptr<const void>> copies;
  const auto read = [&] {
    config = core::config_from_gguf(file);
    tensors = core::manifest_tensors(file, config, copies);
  };
  if (!accepted(read, file.path().string())) return false;
  core::write_gguf_model(scratch_path("model.gguf"), config, tensors, "a name", {});
  const core::GgufFile again(scratch_path("model.gguf"));
  check(core::config_from_gguf(again) == config, "a configuration that is written to a GGUF is read as the same");
  check(same_tensors(core::manifest_tensors(again, config, copies), tensors),
        "a model's tensors are read as they were written");
  return true;
}

}  // namespace

bool take(std::string_view input) {
  const auto path = scratch_file("f.gguf", input);
  std::optional<core::GgufFile> file;
  if (!accepted([&] { file.emplace(path); }, path.string())) return false;
  look_at(*file);
  rewrite(*file);
  return take_model(*file);  // fuzz_tokenizer_gguf.cpp reads the tokenizer
}

}  // namespace folio::fuzz
