// The common parts of all kinds of vocabularies: pieces, types of pieces, and the IDs of special tokens.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "data/tokenizers/special_tokens.h"

namespace folio::data {

/// The type of a piece, numbered as in GGUF's tokenizer.ggml.token_type. Control and unknown pieces are special: they
/// match text only where special tokens are parsed. The text of a user-defined piece is always one token.
enum class PieceType : int32_t { Normal = 1, Unknown = 2, Control = 3, UserDefined = 4, Unused = 5, Byte = 6 };

[[nodiscard]] inline bool is_special(PieceType type) {
  return type == PieceType::Control || type == PieceType::Unknown;
}

struct Vocabulary {
  std::vector<std::string> pieces;
  std::vector<PieceType> types;
  int32_t bos = -1;  ///< -1 if there is no such token, like the other special IDs below
  int32_t eos = -1;
  int32_t unk = -1;
  int32_t pad = -1;
  int32_t eot = -1;  ///< the token that ends a chat turn
  bool add_bos = false;
  bool add_eos = false;
  std::map<int32_t, TokenFlags> flags;  ///< flags that differ from the default, by ID; not in GGUF
  std::vector<int32_t> prefix;          ///< if not empty, replaces BOS (GLM: [gMASK] <sop>); not stored in GGUF

  bool operator==(const Vocabulary&) const = default;
};

[[nodiscard]] TokenFlags flags_of(const Vocabulary& vocabulary, int32_t id);

/// Returns the tokens that precede each text: the prefix, or BOS if add_bos is set.
[[nodiscard]] std::vector<int32_t> beginning_of(const Vocabulary& vocabulary);

/// The names of a special ID in messages, GGUF and Hugging Face files, and the Vocabulary member that stores it. GGUF
/// keys append "_token_id" to `gguf`, Hugging Face keys "_token" to `hf`.
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

/// Throws core::Error, prefixed with `where`, if pieces and types differ in number, there is no piece, a type is
/// unknown, or an ID is out of range.
void validate(const Vocabulary& vocabulary, const std::string& where);

/// Returns, for each piece, true if generation stops at it: EOS, the end of a turn, BOS, and control pieces with a
/// known name such as "<|im_end|>", since the files of some chat models do not specify which token ends a turn.
[[nodiscard]] std::vector<bool> ends_of_text(const Vocabulary& vocabulary);

}  // namespace folio::data
