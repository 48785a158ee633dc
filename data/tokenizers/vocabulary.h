// What all kinds of vocabulary have in common: pieces, their types and the ids of special tokens.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "data/tokenizers/special_tokens.h"

namespace folio::data {

/// Numbered as in GGUF's tokenizer.ggml.token_type. Control and unknown pieces are special: they are found in a text
/// only where special tokens are parsed. A user-defined piece is text that is always one token.
enum class PieceType : int32_t { Normal = 1, Unknown = 2, Control = 3, UserDefined = 4, Unused = 5, Byte = 6 };

[[nodiscard]] inline bool is_special(PieceType type) {
  return type == PieceType::Control || type == PieceType::Unknown;
}

struct Vocabulary {
  std::vector<std::string> pieces;
  std::vector<PieceType> types;
  int32_t bos = -1;  ///< -1: none; so for the others
  int32_t eos = -1;
  int32_t unk = -1;
  int32_t pad = -1;
  int32_t eot = -1;  ///< ends a turn of a chat
  bool add_bos = false;
  bool add_eos = false;
  std::map<int32_t, TokenFlags> flags;  ///< of special and user-defined pieces, where not the default; GGUF lacks them
  std::vector<int32_t> prefix;  ///< before each text, in place of BOS: GLM's [gMASK] and <sop>; GGUF can't say it

  bool operator==(const Vocabulary&) const = default;
};

[[nodiscard]] TokenFlags flags_of(const Vocabulary& vocabulary, int32_t id);

/// What stands before each text: the prefix, or BOS if it is to be added.
[[nodiscard]] std::vector<int32_t> beginning_of(const Vocabulary& vocabulary);

/// The special ids, their names in messages and in files, and their members. GGUF appends "_token_id" to a name,
/// Hugging Face "_token".
struct SpecialIdName {
  const char* name;
  const char* gguf;
  const char* hf;
  int32_t Vocabulary::*id;
};
inline constexpr std::array<SpecialIdName, 5> kSpecialIds = {{{"BOS", "bos", "bos", &Vocabulary::bos},
                                                              {"EOS", "eos", "eos", &Vocabulary::eos},
                                                              {"unknown", "unknown", "unk", &Vocabulary::unk},
                                                              {"padding", "padding", "pad", &Vocabulary::pad},
                                                              {"end-of-turn", "eot", "eot", &Vocabulary::eot}}};

/// Throws core::Error, prefixed with `where`, if lists differ in length, there is no piece, a type is unknown, or an
/// id is out of range.
void validate(const Vocabulary& vocabulary, const std::string& where);

/// The pieces at which generation stops: EOS, the end of a turn, BOS, and control pieces with the names that published
/// chat models use for them, since a model may end its turn with another token than its file names.
[[nodiscard]] std::vector<bool> ends_of_text(const Vocabulary& vocabulary);

}  // namespace folio::data
