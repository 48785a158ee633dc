// Reads and writes character vocabularies in GGUF files, as byte-level BPE ("gpt2") whose merges join the bytes of each
// character. A merge whose result is only part of a character has no token. Other engines accept such merges, since
// they look merges up by text.
#include <algorithm>
#include <set>

#include "core/error.h"
#include "data/tokenizers/byte_level.h"
#include "data/tokenizers/char_tokenizer.h"
#include "data/tokenizers/gguf/gguf_vocabulary.h"

namespace folio::data {

bool CharTokenizer::is_gguf(const core::GgufFile& file) {
  const std::vector<std::string>& tokens = file.list<std::string>("tokenizer.ggml.tokens");
  return !tokens.empty() && tokens.back() == kEndOfText &&
         std::all_of(tokens.begin(), tokens.end() - 1, [](const std::string& token) {
           const auto bytes = byte_level_to_bytes(token);
           return bytes && character_in(*bytes);
         });
}

CharTokenizer CharTokenizer::from_gguf(const core::GgufFile& file) {
  const std::string where = file.path().string() + ": tokenizer";
  Vocabulary v;
  const auto end = static_cast<int32_t>(file.list<std::string>("tokenizer.ggml.tokens").size()) - 1;
  v.bos = v.eos = end;
  for (const char* key : {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id"}) {
    const int64_t id = file.integer(key, end);
    core::require(id >= 0 && id <= end, "{}: {} is {}, but IDs are 0 to {}", where, key, id, end);
  }
  gguf::read_byte_level(file, where, v);
  return from_pieces(std::move(v.pieces), where);
}

core::GgufMetadata CharTokenizer::vocabulary_to_gguf() const {
  std::vector<std::string> merges;
  std::set<std::string> seen;  // characters with the same leading bytes need the same merge only once
  for (const std::string& character : characters()) {
    for (size_t i = 1; i < character.size(); ++i) {  // merge bytes 1 and 2, then the result and byte 3, …
      std::string merge =
          bytes_to_byte_level(character.substr(0, i)) + " " + bytes_to_byte_level(character.substr(i, 1));
      if (seen.insert(merge).second) merges.push_back(std::move(merge));
    }
  }
  core::GgufMetadata metadata = gguf::byte_level(vocabulary_, "gpt-2", std::move(merges));
  // Write the same keys in the same order as earlier versions, so that exporting a model again gives the same bytes.
  std::swap(metadata[3], metadata[4]);
  std::erase_if(metadata, [](const auto& pair) { return pair.first == "tokenizer.ggml.add_eos_token"; });
  return metadata;
}

}  // namespace folio::data
