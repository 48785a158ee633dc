#include "tests/fuzz/tokenizers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "core/file_io.h"
#include "core/formats/gguf.h"
#include "data/tokenizers/bpe.h"
#include "data/tokenizers/sentencepiece.h"
#include "data/tokenizers/tokenizer_files.h"
#include "data/tokenizers/unicode.h"
#include "tests/fuzz/fuzz.h"

namespace folio::fuzz {
namespace {

// Returns a text of at most 64 bytes that the tokenizer can encode: the bytes of its first tokens.
std::string text_of(const data::Tokenizer& tokenizer) {
  constexpr size_t kMaxText = 64;
  std::string text;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string& bytes = tokenizer.token_bytes(id);
    if (text.size() + bytes.size() <= kMaxText) text += bytes;
  }
  return text;
}

std::vector<int32_t> encode(const data::Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> ids;
  accepted([&] { ids = tokenizer.encode(text); }, "");
  return ids;
}

// Returns true unless the text has bytes that a byte-level BPE drops because it has no tokens for them.
bool has_bytes(const data::Tokenizer& tokenizer, std::string_view text) {
  if (tokenizer.kind() != "byte-level BPE") return true;
  std::array<bool, 256> known{};
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string& bytes = tokenizer.token_bytes(id);
    if (bytes.size() == 1) known[static_cast<unsigned char>(bytes[0])] = true;
  }
  return std::all_of(text.begin(), text.end(), [&](char c) { return known[static_cast<unsigned char>(c)]; });
}

// Returns true if no token strips spaces around it and SentencePiece's normalizer always adds a leading space. A GGUF
// file can store only such tokenizers.
bool keeps_spaces(const data::Tokenizer& tokenizer) {
  if (const auto* bpe = dynamic_cast<const data::BpeTokenizer*>(&tokenizer)) return bpe->vocabulary().flags.empty();
  const auto* pieces = dynamic_cast<const data::SentencePieceTokenizer*>(&tokenizer);
  return pieces == nullptr ||
         (pieces->vocabulary().flags.empty() && pieces->vocabulary().space_prefix == data::SpacePrefix::Normalizer);
}

void check_encode(const data::Tokenizer& tokenizer, std::string_view text) {
  const std::vector<int32_t> ids = encode(tokenizer, text);
  bool known = !ids.empty() && keeps_spaces(tokenizer) &&
               has_bytes(tokenizer, text);  // all characters have tokens, so decoding must give the text
  for (const int32_t id : ids) {
    check(id >= 0 && id < tokenizer.vocab_size(), "a text's ids are tokens");
    known = known && !tokenizer.token_bytes(id).empty();
  }
  const std::string decoded = tokenizer.decode(ids);
  const bool marked = text.find("\u2581") != std::string_view::npos;  // SentencePiece decodes "▁" as a space
  const auto* bpe = dynamic_cast<const data::BpeTokenizer*>(&tokenizer);
  if (bpe != nullptr && bpe->vocabulary().nfc) {  // decodes to the normalized text
    check(
        !known || !has_bytes(tokenizer, data::to_nfc(text)) || tokenizer.decode(encode(tokenizer, decoded)) == decoded,
        "a normalized text is encoded and decoded without loss");
    return;
  }
  check(!known || marked || decoded == text, "a text is encoded and decoded without loss");
}

}  // namespace

void look_at(const data::Tokenizer& tokenizer) {
  check(tokenizer.vocab_size() > 0, "a tokenizer has tokens");
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) touch(tokenizer.token_bytes(id));
  for (const int32_t id : {-1, tokenizer.vocab_size()}) {
    check(!accepted([&] { touch(tokenizer.token_bytes(id)); }, ""), "ids outside the vocabulary are rejected");
  }
  check(tokenizer.end_of_text() >= 0 && tokenizer.end_of_text() < tokenizer.vocab_size(),
        "the end of a text is a token");
  check(tokenizer.ends_text(tokenizer.end_of_text()), "the end of a text ends it");
  for (const auto& ids : {tokenizer.default_prompt(), tokenizer.suppressed_tokens(), tokenizer.prefix_tokens()}) {
    for (const int32_t id : ids) touch(tokenizer.token_bytes(id));
  }
  const auto& special = tokenizer.special_tokens().tokens();
  for (size_t i = 0; i < special.size(); i += 1 + i / 8) {
    if (special[i].flags.normalized) continue;  // tokens without this flag are matched first and may split its text
    const std::vector<data::PromptPiece> pieces = {{.text = special[i].text, .parse_special = true}};
    check(tokenizer.encode_pieces(pieces) == std::vector<int32_t>{special[i].id}, "a special token is one token");
  }
  check_encode(tokenizer, text_of(tokenizer));
  check_encode(tokenizer, "a b\xC3\xA9\xFF \n");
}

bool same_tokenizer(const data::Tokenizer& a, const data::Tokenizer& b) {
  bool same = a.kind() == b.kind() && a.vocab_size() == b.vocab_size() && a.end_of_text() == b.end_of_text() &&
              a.prefix_tokens() == b.prefix_tokens() && a.chat_template() == b.chat_template() &&
              a.special_tokens().tokens().size() == b.special_tokens().tokens().size();
  for (int32_t id = 0; id < a.vocab_size() && same; ++id) same = a.token_bytes(id) == b.token_bytes(id);
  const std::string text = text_of(a);
  return same && encode(a, text) == encode(b, text);
}

void survives_gguf(const data::Tokenizer& tokenizer) {
  core::GgufMetadata metadata;
  if (!keeps_spaces(tokenizer) || !accepted([&] { metadata = tokenizer.to_gguf(); }, "")) return;
  {
    core::OutputFile out(scratch_path("tokenizer.gguf"));
    core::write_gguf(out, metadata, {});
    out.flush();
  }
  const core::GgufFile file(scratch_path("tokenizer.gguf"));
  check(same_tokenizer(tokenizer, *data::tokenizer_from_gguf(file)), "a tokenizer in a GGUF is read as it was written");
}

void survives_hf(const data::Tokenizer& tokenizer) {
  const auto folder = scratch_path("again");
  std::filesystem::create_directory(folder);
  if (!accepted([&] { tokenizer.write_hf(folder); }, "")) return;
  std::ofstream(folder / "config.json") << fmt::format("{{\"vocab_size\": {}}}", tokenizer.vocab_size());
  check(same_tokenizer(tokenizer, *data::tokenizer_from_hf(folder)), "a tokenizer.json is read as it was written");
}

}  // namespace folio::fuzz
