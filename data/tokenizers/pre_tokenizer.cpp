#include "data/tokenizers/pre_tokenizer.h"

#include <array>
#include <vector>

#include "core/error.h"
#include "core/utf8.h"
#include "data/tokenizers/unicode.h"

namespace folio::data {
namespace {

class Scanner {
 public:
  Scanner(std::string_view text, size_t at) : text_(text) { move_to(at); }

  [[nodiscard]] size_t at() const { return at_; }
  [[nodiscard]] bool at_end() const { return at_ == text_.size(); }
  /// Returns true if the current character equals `code_point`, or has class `c`. Returns false at the end of the text.
  [[nodiscard]] bool is(uint32_t code_point) const { return !at_end() && code_point_ == code_point; }
  [[nodiscard]] bool is(CharClass c) const { return !at_end() && class_ == c; }
  [[nodiscard]] LetterCase letter_case() const { return case_of(code_point_); }
  [[nodiscard]] bool is_newline() const { return is('\n') || is('\r'); }

  [[nodiscard]] size_t end() const { return at_ + length_; }
  void next() { move_to(end()); }
  void skip(CharClass c) {
    while (is(c)) next();
  }
  void move_to(size_t at) {
    at_ = at;
    if (at_end()) return;
    length_ = 1;
    code_point_ = static_cast<unsigned char>(text_[at_]);
    if (code_point_ >= 0x80) decode();
    class_ = class_of(code_point_);
  }

 private:
  void decode() {
    const core::Utf8Char c = core::decode_utf8(text_, at_);
    code_point_ = c.valid ? c.code_point : 0xFFFD;
    length_ = c.length;
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t length_ = 1;
  uint32_t code_point_ = 0;
  CharClass class_ = CharClass::Other;
};

// Returns the end of 's, 't, 're, 've, 'm, 'll or 'd at `at`, or 0 if there is none.
size_t contraction_end(std::string_view text, size_t at, bool ignore_case) {
  if (at == text.size() || text[at] != '\'') return 0;
  constexpr std::string_view kLongS = "\u017F";  // U+017F, which also matches s if case is ignored
  if (ignore_case && text.substr(at + 1).starts_with(kLongS)) return at + 1 + kLongS.size();
  const auto letter = [&](size_t i) {
    const char c = i < text.size() ? text[i] : '\0';
    return ignore_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  const char first = letter(at + 1);
  const char second = letter(at + 2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  return ((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l') ? at + 3 : 0;
}

// Returns the end of \s+(?!\S)|\s+ : white space, without its last character if it has several and a word follows. If
// `numbers_apart`, a number does not count as a word.
size_t space_end(Scanner in, bool numbers_apart) {
  const size_t begin = in.at();
  size_t last = begin;
  while (in.is(CharClass::Space)) {
    last = in.at();
    in.next();
  }
  const bool ended = in.at_end() || (numbers_apart && in.is(CharClass::Number));
  return ended || last == begin ? in.at() : last;
}

size_t gpt2_end(std::string_view text, size_t at, bool numbers_apart) {
  if (const size_t end = contraction_end(text, at, false); end > 0) return end;
  const Scanner begin(text, at);
  Scanner in = begin;
  if (in.is(' ')) in.next();
  for (const CharClass c : {CharClass::Letter, CharClass::Other, CharClass::Number}) {
    if (!in.is(c) || (c == CharClass::Number && numbers_apart)) continue;
    in.skip(c);
    return in.at();
  }
  return space_end(begin, numbers_apart);
}

size_t digits_end(std::string_view text, size_t at) {
  Scanner in(text, at);
  if (!in.is(CharClass::Number)) return gpt2_end(text, at, true);
  in.next();
  return in.at();
}

// Returns the end of \s*[\r\n]+ : white space through its last line break. Returns 0 if there is none.
size_t newline_end(Scanner in) {
  size_t end = 0;
  while (in.is(CharClass::Space)) {
    const bool newline = in.is_newline();
    in.next();
    if (newline) end = in.at();
  }
  return end;
}

// Returns the end of \p{N}{1,most_numbers}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ : a number, punctuation
// with the line breaks (and, if `slashes`, the slashes) after it, or white space.
size_t end_without_letters(const Scanner& begin, int most_numbers, bool slashes) {
  Scanner in = begin;
  if (in.is(CharClass::Number)) {
    for (int i = 0; i < most_numbers && in.is(CharClass::Number); ++i) in.next();
    return in.at();
  }
  if (in.is(' ')) in.next();
  if (in.is(CharClass::Other)) {
    in.skip(CharClass::Other);
    while (in.is_newline() || (slashes && in.is('/'))) in.next();
    return in.at();
  }
  const size_t newline = newline_end(begin);
  return newline > 0 ? newline : space_end(begin, false);
}

// Returns the end of the word that begins at `at`, as in Llama 3 and Qwen 2. A number is split into words of at most
// `most_numbers` digits.
size_t llama3_end(std::string_view text, size_t at, int most_numbers) {
  if (const size_t end = contraction_end(text, at, true); end > 0) return end;
  const Scanner begin(text, at);
  Scanner in = begin;
  if (!in.is(CharClass::Letter) && !in.is(CharClass::Number) && !in.is_newline()) in.next();
  if (in.is(CharClass::Letter)) {
    in.skip(CharClass::Letter);
    return in.at();
  }
  return end_without_letters(begin, most_numbers, false);
}

bool has_upper(const Scanner& in) {
  return !in.at_end() && in.letter_case() != LetterCase::None && in.letter_case() != LetterCase::Lower;
}
bool has_lower(const Scanner& in) {
  return !in.at_end() && in.letter_case() != LetterCase::None && in.letter_case() != LetterCase::Upper;
}

// Returns the end of U*L+ (PreTokenizer::O200k): all characters in U, then those in L. If none of L follows, the match
// ends at the last character of U that is also in L. Returns 0 if there is no match.
size_t lower_word_end(Scanner in) {
  size_t end = 0;
  for (; has_upper(in); in.next()) {
    if (has_lower(in)) end = in.end();
  }
  for (; has_lower(in); in.next()) end = in.end();
  return end;
}

// Returns the end of U+L* (PreTokenizer::O200k), or 0. Called only if U*L+ does not match, so L* is empty.
size_t upper_word_end(Scanner in) {
  const size_t begin = in.at();
  while (has_upper(in)) in.next();
  return in.at() == begin ? 0 : in.at();
}

size_t o200k_end(std::string_view text, size_t at, bool contractions, int most_numbers) {
  const Scanner begin(text, at);
  Scanner after_first = begin;  // position after the optional [^\r\n\p{L}\p{N}]
  const bool has_first = !begin.is(CharClass::Letter) && !begin.is(CharClass::Number) && !begin.is_newline();
  if (has_first) after_first.next();
  size_t end = lower_word_end(after_first);
  if (end == 0 && has_first) end = lower_word_end(begin);
  if (end == 0) end = upper_word_end(after_first);
  if (end == 0 && has_first) end = upper_word_end(begin);
  if (end > 0) {
    const size_t longer = contractions ? contraction_end(text, end, true) : 0;
    return longer > 0 ? longer : end;
  }
  return end_without_letters(begin, most_numbers, true);
}

// Names from llama.cpp's llama-vocab.cpp. If several have equal settings, the first is written to GGUF files.
constexpr std::array kNames = {
    PreTokenizerName{.name = "gpt-2", .kind = PreTokenizer::Gpt2},
    PreTokenizerName{.name = "phi-2", .kind = PreTokenizer::Gpt2},
    PreTokenizerName{.name = "olmo", .kind = PreTokenizer::Gpt2, .nfc = true},  // the tokenizer of GPT-NeoX and OLMoE
    PreTokenizerName{.name = "mpt", .kind = PreTokenizer::Gpt2, .nfc = true},
    PreTokenizerName{.name = "smollm", .kind = PreTokenizer::Digits},
    PreTokenizerName{.name = "starcoder", .kind = PreTokenizer::Digits},
    PreTokenizerName{.name = "refact", .kind = PreTokenizer::Digits},
    PreTokenizerName{.name = "codeshell", .kind = PreTokenizer::Digits},
    PreTokenizerName{.name = "llama-bpe", .kind = PreTokenizer::Llama3, .ignore_merges = true, .add_bos = true},
    PreTokenizerName{.name = "llama3", .kind = PreTokenizer::Llama3, .ignore_merges = true, .add_bos = true},
    PreTokenizerName{.name = "llama-v3", .kind = PreTokenizer::Llama3, .ignore_merges = true, .add_bos = true},
    PreTokenizerName{.name = "falcon3", .kind = PreTokenizer::Llama3, .ignore_merges = true, .add_bos = true},
    PreTokenizerName{.name = "glm4", .kind = PreTokenizer::Llama3, .ignore_merges = true},
    PreTokenizerName{.name = "smaug-bpe", .kind = PreTokenizer::Llama3},
    PreTokenizerName{.name = "chatglm-bpe", .kind = PreTokenizer::Llama3},
    PreTokenizerName{.name = "dbrx", .kind = PreTokenizer::Llama3},
    PreTokenizerName{.name = "qwen2", .kind = PreTokenizer::Qwen2, .nfc = true},
    PreTokenizerName{.name = "deepseek-r1-qwen", .kind = PreTokenizer::Qwen2, .nfc = true},
    PreTokenizerName{.name = "gpt-4o", .kind = PreTokenizer::O200k},
    PreTokenizerName{.name = "tekken", .kind = PreTokenizer::Tekken, .ignore_merges = true, .add_bos = true},
};

}  // namespace

size_t word_end(PreTokenizer kind, std::string_view text, size_t at) {
  switch (kind) {
    case PreTokenizer::Gpt2:
      return gpt2_end(text, at, false);
    case PreTokenizer::Digits:
      return digits_end(text, at);
    case PreTokenizer::Llama3:
      return llama3_end(text, at, 3);
    case PreTokenizer::O200k:
      return o200k_end(text, at, true, 3);
    case PreTokenizer::Tekken:
      return o200k_end(text, at, false, 1);
    default:
      return llama3_end(text, at, 1);
  }
}

size_t word_border(std::string_view text, size_t from) {
  constexpr std::string_view kSpaces = " \t\r\n";
  for (size_t at = text.find_first_of(kSpaces, std::max<size_t>(from, 1)); at != std::string_view::npos;
       at = text.find_first_of(kSpaces, at + 1)) {
    const core::Utf8Char before = last_character(text.substr(0, at));
    const CharClass c = before.valid ? class_of(before.code_point) : CharClass::Other;
    if (c == CharClass::Letter || c == CharClass::Number) return at;
  }
  return text.size();
}

const PreTokenizerName& pre_tokenizer_named(std::string_view name, const std::string& where) {
  const auto found = std::find_if(kNames.begin(), kNames.end(), [&](const auto& known) { return known.name == name; });
  if (found != kNames.end()) return *found;
  std::vector<std::string_view> names;
  for (const PreTokenizerName& known : kNames) names.push_back(known.name);
  core::fail("{}: the pre-tokenizer \"{}\" is not supported; supported: {}", where, core::printable(name),
             fmt::join(names, ", "));
}

const PreTokenizerName* name_of(PreTokenizer kind, bool ignore_merges, bool nfc) {
  const auto found = std::find_if(kNames.begin(), kNames.end(), [&](const PreTokenizerName& known) {
    return known.kind == kind && known.ignore_merges == ignore_merges && known.nfc == nfc;
  });
  return found == kNames.end() ? nullptr : &*found;
}

}  // namespace folio::data
