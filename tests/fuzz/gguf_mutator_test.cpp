// Tests the GGUF mutator: many results must be valid, since the fuzzer would otherwise only test checks of the header.
#include "tests/fuzz/gguf_mutator.h"

#include <gtest/gtest.h>

#include <set>

#include "core/error.h"
#include "core/file_io.h"
#include "core/formats/gguf.h"
#include "tests/core/support.h"

namespace folio::fuzz {
namespace {

using core::test::TempDir;

// Returns a valid GGUF file with scalars, a string, arrays, nested arrays, and tensors of two types.
std::string sound_file(const TempDir& dir) {
  const std::vector<float> floats(64, 1.5F);
  const auto bytes = std::as_bytes(std::span(floats));
  const core::GgufArray numbers{std::vector<int32_t>{1, 2, 3}};
  core::OutputFile out(dir / "sound.gguf");
  core::write_gguf(out,
                   {{"general.architecture", std::string("llama")},
                    {"a.flag", true},
                    {"a.real", 0.5F},
                    {"a.list", core::GgufArray{std::vector<std::string>{"x", "", "yz"}}},
                    {"a.nested", core::GgufArray{std::vector<core::GgufArray>{numbers, numbers}}}},
                   std::vector<core::TensorView>{
                       {.name = "one", .type = core::DType::F32, .shape = {2, 8}, .bytes = bytes.first(64)},
                       {.name = "two", .type = core::DType::Q8_0, .shape = {32}, .bytes = bytes.first(34)}});
  out.sync_and_close();
  return core::test::read_bytes(dir / "sound.gguf");
}

size_t leave_bytes(uint8_t*, size_t size, size_t) { return size; }

std::string mutated(std::string file, uint32_t seed, size_t max_size = 4096) {
  const size_t size = file.size();
  file.resize(max_size);
  file.resize(mutate_gguf(reinterpret_cast<uint8_t*>(file.data()), size, max_size, seed, leave_bytes));
  return file;
}

TEST(GgufMutator, ProducesValidAndInvalidFiles) {
  const TempDir dir;
  const std::string file = sound_file(dir);
  std::set<std::string> different;
  int sound = 0;
  constexpr int kFiles = 2000;
  for (uint32_t seed = 0; seed < kFiles; ++seed) {
    const std::string changed = mutated(file, seed);
    different.insert(changed);
    core::test::write_bytes(dir / "changed.gguf", changed);
    try {
      const core::GgufFile opened(dir / "changed.gguf");
      ++sound;
    } catch (const core::Error&) {
    }
  }
  EXPECT_GT(different.size(), kFiles / 2U);
  EXPECT_GT(sound, kFiles / 5);
  EXPECT_LT(sound, kFiles * 4 / 5);
}

TEST(GgufMutator, IsDeterministicAndLimitsTheSize) {
  const TempDir dir;
  const std::string file = sound_file(dir);
  for (uint32_t seed = 0; seed < 300; ++seed) {
    EXPECT_EQ(mutated(file, seed), mutated(file, seed));
    EXPECT_LE(mutated(file, seed, file.size()).size(), file.size());
  }
}

}  // namespace
}  // namespace folio::fuzz
