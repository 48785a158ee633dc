// Fuzzes reading a tokenizer of any kind from a GGUF file. Writes each accepted tokenizer to a GGUF file, and a
// byte-level BPE also to a tokenizer.json, unless the format can't store it, and reads them back.
#include <optional>

#include "core/formats/gguf.h"
#include "data/tokenizers/bpe.h"
#include "data/tokenizers/tokenizer_files.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/tokenizers.h"

namespace folio::fuzz {
namespace {

// Returns true for a byte-level BPE that has no unused tokens or byte tokens, which tokenizer.json can't store.
bool fits_hf(const data::Tokenizer& tokenizer) {
  const auto* bpe = dynamic_cast<const data::BpeTokenizer*>(&tokenizer);
  if (bpe == nullptr) return false;  // fuzz_tokenizer_json.cpp tests other tokenizers
  for (const data::PieceType type : bpe->vocabulary().types) {
    if (type == data::PieceType::Unused || type == data::PieceType::Byte) return false;
  }
  return true;
}

}  // namespace

bool take(std::string_view input) {
  const auto path = scratch_file("f.gguf", input);
  std::optional<core::GgufFile> file;
  if (!accepted([&] { file.emplace(path); }, path.string())) return false;
  std::unique_ptr<data::Tokenizer> tokenizer;
  if (!accepted([&] { tokenizer = data::tokenizer_from_gguf(*file); }, path.string())) return false;
  look_at(*tokenizer);
  survives_gguf(*tokenizer);
  if (fits_hf(*tokenizer)) survives_hf(*tokenizer);
  return true;
}

}  // namespace folio::fuzz
