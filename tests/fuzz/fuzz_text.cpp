// Fuzzes UTF-8, the byte-level alphabet, and a character tokenizer. Input: a training text, a byte FF (which is never
// part of UTF-8), and a text to encode with the training text's characters.
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.h"
#include "core/utf8.h"
#include "data/tokenizers/byte_level.h"
#include "data/tokenizers/char_tokenizer.h"
#include "tests/fuzz/fuzz.h"

namespace folio::fuzz {
namespace {

// Returns true if the text is UTF-8, checked by nlohmann::json instead of core/utf8.h.
bool is_utf8(std::string_view text) {
  try {
    return !nlohmann::json(text).dump().empty();
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

void check_utf8(std::string_view text) {
  bool all_valid = true;
  for (size_t at = 0; at < text.size();) {
    const core::Utf8Char c = core::decode_utf8(text, at);
    check(c.length >= 1 && c.length <= text.size() - at, "a character lies within the text");
    check(c.valid || c.length == 1, "an invalid byte counts as one");
    std::string bytes;
    if (c.valid) core::append_utf8(bytes, c.code_point);
    check(!c.valid || bytes == text.substr(at, c.length), "a character has one spelling");
    all_valid = all_valid && c.valid;
    at += c.length;
  }
  check(all_valid == is_utf8(text), "text is UTF-8 exactly if nlohmann::json accepts it");
  const size_t whole = core::complete_utf8_prefix(text);
  check(whole <= text.size() && text.size() - whole <= 3, "an unfinished character has at most three bytes");
  check(is_utf8(core::printable(text, 40)), "printable text is UTF-8");
  check(data::byte_level_to_bytes(data::bytes_to_byte_level(text)) == text, "the byte-level alphabet is reversible");
}

}  // namespace

bool take(std::string_view input) {
  check_utf8(input);
  const std::string_view first = input.substr(0, input.find('\xFF'));
  const std::string_view second = first.size() < input.size() ? input.substr(first.size() + 1) : first;
  std::optional<data::CharTokenizer> tokenizer;
  if (!accepted([&] { tokenizer = data::CharTokenizer::from_text(first, "f.txt"); }, "f.txt")) return false;
  check(tokenizer->decode(tokenizer->encode(first)) == first, "a text is encoded and decoded without loss");
  std::vector<int32_t> ids;
  if (!accepted([&] { ids = tokenizer->encode(second); }, "line ")) return false;
  check(tokenizer->decode(ids) == second, "another text of the same characters is encoded and decoded without loss");
  return true;
}

}  // namespace folio::fuzz
