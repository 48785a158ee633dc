// Fuzzes reading llama2.c's tokenizer.bin. Writes each accepted vocabulary and reads it back.
#include <optional>

#include "data/tokenizers/llama2c/llama2c_vocabulary.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/tokenizers.h"

namespace folio::fuzz {
namespace {

data::SentencePieceTokenizer rewritten(const data::Llama2cVocabulary& vocabulary) {
  const auto path = scratch_path("again.bin");
  data::write_llama2c_tokenizer(path, vocabulary);
  return data::read_llama2c_tokenizer(path, static_cast<int64_t>(vocabulary.pieces.size()));
}

}  // namespace

bool take(std::string_view input) {
  const auto path = scratch_file("tokenizer.bin", input);
  std::optional<data::SentencePieceTokenizer> tokenizer;
  if (!accepted([&] { tokenizer.emplace(data::read_llama2c_tokenizer(path, 0)); }, path.string())) return false;
  look_at(*tokenizer);
  survives_gguf(*tokenizer);
  std::optional<data::Llama2cVocabulary> vocabulary;
  if (!accepted([&] { vocabulary = data::to_llama2c(*tokenizer); }, "")) return true;
  // Writing replaces the texts of BOS and EOS with those in llama2.c's files. Writing the result again changes nothing.
  const auto once = rewritten(*vocabulary);
  check(same_tokenizer(once, *tokenizer), "a tokenizer.bin that is written anew has the same tokens");
  check(rewritten(data::to_llama2c(once)).vocabulary() == once.vocabulary(), "the second writing changes nothing");
  return true;
}

}  // namespace folio::fuzz
