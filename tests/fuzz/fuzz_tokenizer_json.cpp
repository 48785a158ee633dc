// Fuzzes reading a tokenizer.json for any kind of tokenizer, with a valid tokenizer_config.json in the same directory.
// Writes each accepted tokenizer and reads it back.
#include "data/tokenizers/tokenizer_files.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/tokenizers.h"

namespace folio::fuzz {

bool take(std::string_view input) {
  static const auto config = scratch_file("tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "</s>"})");
  scratch_file("tokenizer.json", input);
  std::unique_ptr<data::Tokenizer> tokenizer;
  const auto folder = scratch_path("");
  if (!accepted([&] { tokenizer = data::tokenizer_from_hf(folder); }, folder.string())) return false;
  look_at(*tokenizer);
  survives_hf(*tokenizer);
  return true;
}

}  // namespace folio::fuzz
