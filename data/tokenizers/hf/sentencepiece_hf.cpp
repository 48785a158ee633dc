// Reads and writes SentencePiece vocabularies in tokenizer.json of Hugging Face's tokenizers: BPE with byte fallback.
// The file has merges instead of scores: every split of a piece into two pieces, in the order of the scores.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "core/error.h"
#include "core/json.h"
#include "core/utf8.h"
#include "data/tokenizers/hf/hf_tokenizer.h"
#include "data/tokenizers/sentencepiece.h"
#include "data/tokenizers/sentencepiece_text.h"

namespace folio::data {
namespace {

using core::json_get;
using core::printable;
using core::require;
using hf::Json;

// Finds IDs of pieces by their text, spelled as in the file.
class PieceIndex {
 public:
  explicit PieceIndex(const SentencePieceVocabulary& vocabulary) : vocabulary_(vocabulary), ids_(vocabulary.pieces) {
    for (size_t i = 0; i < vocabulary.pieces.size(); ++i) ids_.add(static_cast<int32_t>(i));
  }

  [[nodiscard]] int32_t find(std::string_view piece) const { return ids_.find(piece); }

  /// Returns true if symbols of a text can be merged into this piece.
  [[nodiscard]] bool joins(int32_t id) const { return id >= 0 && data::joins(vocabulary_, static_cast<size_t>(id)); }

  /// Calls visit(left, right) for every split of a piece into two pieces, the longest left half first.
  template <typename Visit>
  void for_each_split(int32_t id, Visit&& visit) const {
    const std::string_view text = vocabulary_.pieces[static_cast<size_t>(id)];
    if (!joins(id)) return;
    for (size_t at = text.size() - 1; at > 0; --at) {
      const std::string_view left = text.substr(0, at);
      const std::string_view right = text.substr(at);
      if (joins(find(left)) && joins(find(right))) visit(left, right);
    }
  }

 private:
  const SentencePieceVocabulary& vocabulary_;
  TextIndex ids_;
};

Json merges_of(const SentencePieceVocabulary& v) {
  const PieceIndex index(v);
  std::vector<int32_t> by_score(v.pieces.size());
  std::iota(by_score.begin(), by_score.end(), 0);
  std::stable_sort(by_score.begin(), by_score.end(), [&](int32_t a, int32_t b) {
    return v.scores[static_cast<size_t>(a)] > v.scores[static_cast<size_t>(b)];
  });
  Json merges = Json::array();
  for (const int32_t id : by_score) {
    index.for_each_split(id, [&](std::string_view left, std::string_view right) {
      merges.push_back(fmt::format("{} {}", left, right));
    });
  }
  return merges;
}

// Returns Gemma's pre-tokenizer. It has no effect, since it splits at spaces, and the normalizer replaces all of them.
Json gemma_pre_tokenizer() {
  return {{"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "MergedWithPrevious"}, {"invert", false}};
}

Json replace_spaces() { return {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpaceMark}}; }

Json normalizer_of(bool add_space_prefix) {
  Json steps = Json::array();
  if (add_space_prefix) steps.push_back({{"type", "Prepend"}, {"prepend", kSpaceMark}});
  steps.push_back(replace_spaces());
  return {{"type", "Sequence"}, {"normalizers", steps}};
}

Json metaspace_of(const SentencePieceVocabulary& v) {
  const char* scheme = v.space_prefix == SpacePrefix::First ? "first" : "always";
  return {{"type", "Metaspace"},
          {"replacement", kSpaceMark},
          {"prepend_scheme", v.add_space_prefix ? scheme : "never"},
          {"split", v.split_words}};
}

Json decoder_of(bool add_space_prefix) {
  Json steps = {{{"type", "Replace"}, {"pattern", {{"String", kSpaceMark}}}, {"content", " "}},
                {{"type", "ByteFallback"}},
                {{"type", "Fuse"}}};
  if (add_space_prefix) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", steps}};
}

class HfReader {
 public:
  explicit HfReader(const hf::TokenizerFiles& source)
      : source_(source), where_(source.where), model_(hf::read_model(source)) {}

  SentencePieceTokenizer read() {
    hf::supported(hf::value(model_, "ignore_merges") != true, where_, "ignore_merges");
    hf::read_pieces(source_, v_);
    // Check lengths first, since the time to look up all splits of a piece depends on its length.
    for (size_t i = 0; i < v_.pieces.size(); ++i) require_piece_length(v_.pieces[i], i, where_);
    read_bytes();
    read_specials();
    read_spaces();
    hf::read_template(source_, hf::value(source_.tokenizer, "post_processor"), v_);
    v_.scores.assign(v_.pieces.size(), 0.0F);
    validate(v_, where_);  // read_scores() requires a valid vocabulary
    read_scores();
    return {std::move(v_), where_};
  }

 private:
  void read_bytes() {
    if (hf::value(model_, "byte_fallback") != true) return;
    for (size_t i = 0; i < v_.pieces.size(); ++i) {
      if (v_.types[i] == PieceType::Normal && parse_byte_piece(v_.pieces[i])) v_.types[i] = PieceType::Byte;
    }
  }

  void read_specials() {
    hf::read_special_ids(source_, v_);
    require(v_.bos >= 0, "{}: bos_token is missing or not a string", source_.config_where);
    const nlohmann::json& unknown = hf::value(model_, "unk_token");
    require(unknown.is_null() || unknown.is_string(), "{}: unk_token is not a string", where_);
    v_.unk = unknown.is_null() ? -1 : hf::id_of(unknown.get<std::string>(), v_, where_);
    if (v_.unk >= 0) v_.types[static_cast<size_t>(v_.unk)] = PieceType::Unknown;
    const auto n_bytes = std::count(v_.types.begin(), v_.types.end(), PieceType::Byte);
    hf::supported(v_.unk < 0 || n_bytes == 256 || hf::value(model_, "fuse_unk") == true, where_,
                  "fuse_unk = false without byte pieces");
  }

  // Reads the normalizer or Metaspace step that replaces spaces by U+2581, and whether it adds a leading space.
  void read_spaces() {
    const nlohmann::json& normalizer = hf::value(source_.tokenizer, "normalizer");
    const nlohmann::json& pre_tokenizer = hf::value(source_.tokenizer, "pre_tokenizer");
    if (normalizer.is_null() && hf::value(pre_tokenizer, "type") == "Metaspace") {
      read_metaspace(pre_tokenizer);
    } else {
      hf::supported(pre_tokenizer.is_null() || pre_tokenizer == nlohmann::json(gemma_pre_tokenizer()), where_,
                    "the pre-tokenizer {}", hf::shown(pre_tokenizer));
      v_.add_space_prefix = normalizer == nlohmann::json(normalizer_of(true));
      const bool alone = normalizer == nlohmann::json(replace_spaces());  // as for Gemma: no leading space is added
      hf::supported(v_.add_space_prefix || alone || normalizer == nlohmann::json(normalizer_of(false)), where_,
                    "the normalizer {}", hf::shown(normalizer));
    }
    const nlohmann::json& decoder = hf::value(source_.tokenizer, "decoder");
    hf::supported(decoder == nlohmann::json(decoder_of(v_.add_space_prefix)), where_, "the decoder {}",
                  hf::shown(decoder));
  }

  // Reads Metaspace. Missing keys have the defaults of Hugging Face's tokenizers; old versions wrote add_prefix_space.
  void read_metaspace(const nlohmann::json& metaspace) {
    const nlohmann::json& mark = hf::value(metaspace, "replacement");
    const nlohmann::json& split = hf::value(metaspace, "split");
    const nlohmann::json& scheme = hf::value(metaspace, "prepend_scheme");
    const bool never = scheme == "never" || hf::value(metaspace, "add_prefix_space") == false;
    const bool known = never || scheme.is_null() || scheme == "always" || scheme == "first";
    hf::supported(known && mark == kSpaceMark && (split.is_null() || split.is_boolean()), where_,
                  "the pre-tokenizer {}", hf::shown(metaspace));
    v_.add_space_prefix = !never;
    v_.space_prefix = scheme == "first" ? SpacePrefix::First : SpacePrefix::Always;
    v_.split_words = split != false;
  }

  // Sets scores by the order of the merges, as in SentencePiece: the first piece that they produce gets 0, the next -1,
  // and so on. Pieces without merges get lower scores.
  void read_scores() {
    const PieceIndex index(v_);
    find_apart(index);
    std::vector<size_t> n_merges(v_.pieces.size());
    std::set<std::pair<int32_t, size_t>> seen;
    int32_t current = -1;
    float score = 0.0F;
    for (const nlohmann::json& entry : core::json_list(model_, "merges", where_)) {
      const auto& [left, right] = hf::merge_of(entry, where_);
      const int32_t id = index.find(left + right);
      const auto i = static_cast<size_t>(id);
      require(id >= 0 && index.find(left) >= 0 && index.find(right) >= 0 && seen.emplace(id, left.size()).second,
              "{}: the merge {} does not join two pieces into a third, or occurs twice", where_, hf::shown(entry));
      if (!index.joins(id) || !index.joins(index.find(left)) || !index.joins(index.find(right))) continue;
      if (id != current) {
        hf::supported(n_merges[i] == 0, where_, "BPE whose merges for \"{}\" are not consecutive",
                      [&] { return printable(v_.pieces[i]); });
        current = id;
        v_.scores[i] = score--;
      }
      ++n_merges[i];
    }
    for (size_t i = 0; i < v_.pieces.size(); ++i) {
      size_t n_splits = 0;
      index.for_each_split(static_cast<int32_t>(i), [&](std::string_view, std::string_view) { ++n_splits; });
      hf::supported(
          n_splits == n_merges[i], where_, "BPE that forms \"{}\" from {} of {} pairs of pieces",
          [&] { return printable(v_.pieces[i]); }, n_merges[i], n_splits);
      if (n_splits == 0 && v_.types[i] == PieceType::Normal) v_.scores[i] = score--;
    }
  }

  // Sets TokenFlags::apart for added tokens that the model's BPE does not produce, since they are missing in its
  // "vocab" or merges.
  void find_apart(const PieceIndex& index) {
    std::set<std::string, std::less<>> merged;
    std::vector<size_t> apart;
    for (const nlohmann::json& entry : core::json_list(model_, "merges", where_)) {
      const auto& [left, right] = hf::merge_of(entry, where_);
      merged.insert(left + right);
    }
    for (size_t i = 0; i < v_.pieces.size(); ++i) {
      if (v_.types[i] != PieceType::UserDefined || merged.contains(v_.pieces[i])) continue;
      bool may_join = core::decode_utf8(v_.pieces[i], 0).length == v_.pieces[i].size() &&
                      !hf::value(model_, "vocab").contains(v_.pieces[i]);
      index.for_each_split(static_cast<int32_t>(i), [&](std::string_view, std::string_view) { may_join = true; });
      if (may_join) apart.push_back(i);
    }
    for (const size_t i : apart) v_.flags[static_cast<int32_t>(i)].apart = true;
  }

  const hf::TokenizerFiles& source_;
  const std::string& where_;
  const nlohmann::json& model_;
  SentencePieceVocabulary v_;
};

}  // namespace

HfFiles SentencePieceTokenizer::to_hf() const {
  SentencePieceVocabulary v = vocabulary_;
  hf::drop_padding(v);
  v.scores.resize(v.pieces.size());
  const bool has_bytes = std::find(v.types.begin(), v.types.end(), PieceType::Byte) != v.types.end();
  const bool is_normalizer = v.space_prefix == SpacePrefix::Normalizer;
  return hf::files_of(v, chat_templates(),
                      {.pieces = v.pieces,
                       .merges = merges_of(v),
                       .unk_token = v.unk < 0 ? Json() : Json(v.pieces[static_cast<size_t>(v.unk)]),
                       .fuse_unk = true,
                       .byte_fallback = has_bytes,
                       .normalizer = is_normalizer ? normalizer_of(v.add_space_prefix) : Json(),
                       .pre_tokenizer = is_normalizer ? Json() : metaspace_of(v),
                       .decoder = decoder_of(v.add_space_prefix)});
}

SentencePieceTokenizer SentencePieceTokenizer::from_hf(const hf::TokenizerFiles& source) {
  return HfReader(source).read();
}

}  // namespace folio::data
