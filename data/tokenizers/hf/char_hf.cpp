// Reads and writes character vocabularies in tokenizer.json of Hugging Face's tokenizers, as BPE without merges and
// without a pre-tokenizer, and with the decoder Fuse. The pieces are the characters themselves.
#include "core/json.h"
#include "data/tokenizers/char_tokenizer.h"
#include "data/tokenizers/hf/hf_tokenizer.h"

namespace folio::data {

bool CharTokenizer::is_hf(const nlohmann::json& tokenizer) {
  const nlohmann::json& model = hf::value(tokenizer, "model");
  const nlohmann::json& merges = hf::value(model, "merges");
  return merges.is_array() && merges.empty() && hf::value(model, "byte_fallback") != true &&
         hf::value(tokenizer, "pre_tokenizer").is_null();
}

CharTokenizer CharTokenizer::from_hf(const nlohmann::json& tokenizer, const std::string& where) {
  const nlohmann::json& model = core::json_at(tokenizer, "model", where);
  const nlohmann::json& vocabulary = core::json_at(model, "vocab", where);
  const nlohmann::json& merges = core::json_at(model, "merges", where);
  core::require(vocabulary.is_object() && merges.is_array() && merges.empty(),
                "{}: not a character tokenizer (a BPE vocabulary without merges)", where);
  return from_pieces(hf::pieces_by_id(vocabulary, vocabulary.size(), where), where);
}

HfFiles CharTokenizer::to_hf() const {
  Vocabulary v = vocabulary_;
  v.pad = end_of_text();  // transformers needs a padding token to pad a batch
  return hf::files_of(v, chat_templates(), {.pieces = v.pieces, .decoder = {{"type", "Fuse"}}});
}

}  // namespace folio::data
