// A SentencePiece vocabulary as tokenizer.json of Hugging Face's tokenizers: BPE with byte fallback. Its merges have
// ranks where pieces have scores: the splits of a piece into two pieces are all merges, and follow the scores.
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "core/error.h"
#include "core/file_io.h"
#include "core/json.h"
#include "core/utf8.h"
#include "data/sentencepiece.h"
#include "data/sentencepiece_text.h"

namespace folio::data {
namespace {

using core::fail;
using core::json_get;
using core::printable;
using core::require;
using Json = nlohmann::ordered_json;

// Pieces by their text as the files write it.
class PieceIndex {
 public:
  explicit PieceIndex(const SentencePieceVocabulary& vocabulary) : vocabulary_(vocabulary) {
    for (size_t i = 0; i < vocabulary.pieces.size(); ++i) ids_.emplace(vocabulary.pieces[i], static_cast<int32_t>(i));
  }

  /// -1: none.
  [[nodiscard]] int32_t find(std::string_view piece) const {
    const auto found = ids_.find(piece);
    return found == ids_.end() ? -1 : found->second;
  }

  /// Whether symbols of a text can be joined to it.
  [[nodiscard]] bool joins(int32_t id) const {
    return id >= 0 && vocabulary_.types[static_cast<size_t>(id)] == PieceType::Normal &&
           vocabulary_.pieces[static_cast<size_t>(id)].find(' ') == std::string::npos;
  }

  /// Calls with both halves of every split of a piece into two pieces that join, the longest left half first.
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
  std::unordered_map<std::string_view, int32_t> ids_;
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

Json normalizer_of(bool add_space_prefix) {
  const Json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpaceMark}};
  Json steps = Json::array();
  if (add_space_prefix) steps.push_back({{"type", "Prepend"}, {"prepend", kSpaceMark}});
  steps.push_back(replace);
  return {{"type", "Sequence"}, {"normalizers", steps}};
}

Json decoder_of(bool add_space_prefix) {
  Json steps = {{{"type", "Replace"}, {"pattern", {{"String", kSpaceMark}}}, {"content", " "}},
                {{"type", "ByteFallback"}},
                {{"type", "Fuse"}}};
  if (add_space_prefix) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", steps}};
}

Json post_processor_of(const SentencePieceVocabulary& v) {
  if (!v.add_bos && !v.add_eos) return nullptr;
  Json single = Json::array();
  Json pair = Json::array();
  Json special = Json::object();
  const auto add_special = [&](int32_t id, int type_id, Json& to) {
    const std::string& piece = v.pieces[static_cast<size_t>(id)];
    to.push_back({{"SpecialToken", {{"id", piece}, {"type_id", type_id}}}});
    special[piece] = {{"id", piece}, {"ids", {id}}, {"tokens", {piece}}};
  };
  const auto add_text = [&](const char* name, int type_id, Json& to) {
    if (v.add_bos) add_special(v.bos, type_id, to);
    to.push_back({{"Sequence", {{"id", name}, {"type_id", type_id}}}});
    if (v.add_eos) add_special(v.eos, type_id, to);
  };
  add_text("A", 0, single);
  add_text("A", 0, pair);
  add_text("B", 1, pair);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

Json added_tokens_of(const SentencePieceVocabulary& v) {
  Json tokens = Json::array();
  for (size_t id = 0; id < v.pieces.size(); ++id) {
    const PieceType type = v.types[id];
    const bool special = type == PieceType::Control || type == PieceType::Unknown;
    if (!special && type != PieceType::UserDefined) continue;
    tokens.push_back({{"id", id},
                      {"content", v.pieces[id]},
                      {"single_word", false},
                      {"lstrip", false},
                      {"rstrip", false},
                      {"normalized", false},
                      {"special", special}});
  }
  return tokens;
}

// What a tokenizer.json says, brought back to a vocabulary.
class HfReader {
 public:
  HfReader(const nlohmann::json& json, const nlohmann::json& config, std::string where, std::string config_where)
      : json_(json), config_(config), where_(std::move(where)), config_where_(std::move(config_where)) {}

  SentencePieceTokenizer read() {
    check_model();
    read_pieces();
    read_types();
    read_specials();
    read_normalizer();
    read_post_processor();
    validate(v_, where_);  // before the scores, since the splits of each piece are looked up
    read_scores();
    return {std::move(v_), where_};
  }

 private:
  template <typename... Args>
  void supported(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    if (!condition) fail("{}: {} is not supported here", where_, fmt::format(format, std::forward<Args>(args)...));
  }

  static nlohmann::json value(const nlohmann::json& object, const char* key) {
    return object.is_object() ? object.value(key, nlohmann::json()) : nlohmann::json();
  }
  static std::string shown(const nlohmann::json& json) {
    return printable(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }

  void check_model() {
    model_ = json_get<nlohmann::json>(json_, "model", where_);
    const auto type = json_get<std::string>(model_, "type", where_);
    supported(type == "BPE", "a model of type {}", printable(type));
    for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
      const auto setting = value(model_, key);
      supported(setting.is_null() || setting == "" || setting == 0, "{} = {}", key, shown(setting));
    }
    const auto ignore_merges = value(model_, "ignore_merges");
    supported(ignore_merges.is_null() || ignore_merges == false, "ignore_merges");
    const auto pre_tokenizer = value(json_, "pre_tokenizer");
    supported(pre_tokenizer.is_null(), "the pre-tokenizer {}", shown(pre_tokenizer));
  }

  void read_pieces() {
    const auto vocabulary = json_get<nlohmann::json>(model_, "vocab", where_);
    require(vocabulary.is_object(), "{}: the vocabulary is not an object", where_);
    if (json_.contains("added_tokens")) added_ = json_get<std::vector<nlohmann::json>>(json_, "added_tokens", where_);
    v_.pieces.resize(vocabulary.size());
    for (const auto& token : added_) {  // those past the vocabulary make it longer
      const auto content = json_get<std::string>(token, "content", where_);
      if (!vocabulary.contains(content)) v_.pieces.emplace_back();
    }
    const auto place = [&](const std::string& piece, const nlohmann::json& id) {
      const bool fits = id.is_number_unsigned() && id.get<uint64_t>() < v_.pieces.size();
      require(fits && (v_.pieces[id.get<size_t>()].empty() || v_.pieces[id.get<size_t>()] == piece),
              "{}: the ids of the vocabulary are not 0 to {}, each once: \"{}\" has {}", where_, v_.pieces.size() - 1,
              printable(piece), shown(id));
      v_.pieces[id.get<size_t>()] = piece;
    };
    for (const auto& [piece, id] : vocabulary.items()) place(piece, id);
    for (const auto& token : added_) place(token.at("content").get<std::string>(), value(token, "id"));
    for (size_t i = 0; i < v_.pieces.size(); ++i) {  // now, since all splits of each are looked up
      require_piece_length(v_.pieces[i], i, where_);
    }
  }

  void read_types() {
    const auto fallback = value(model_, "byte_fallback");
    v_.types.assign(v_.pieces.size(), PieceType::Normal);
    for (size_t i = 0; i < v_.pieces.size() && fallback == true; ++i) {
      if (parse_byte_piece(v_.pieces[i])) v_.types[i] = PieceType::Byte;
    }
    for (const auto& token : added_) {
      const auto content = token.at("content").get<std::string>();
      const bool special = json_get<bool>(token, "special", where_);
      for (const char* key : {"single_word", "lstrip", "rstrip", "normalized"}) {
        supported(special || value(token, key) == false, "the added token \"{}\" with {}", printable(content), key);
      }
      v_.types[token.at("id").get<size_t>()] = special ? PieceType::Control : PieceType::UserDefined;
    }
    v_.scores.assign(v_.pieces.size(), 0.0F);
  }

  int32_t id_of(const std::string& piece, const std::string& where) const {
    const auto found = std::find(v_.pieces.begin(), v_.pieces.end(), piece);
    require(found != v_.pieces.end(), "{}: the token \"{}\" is not in the vocabulary", where, printable(piece));
    return static_cast<int32_t>(found - v_.pieces.begin());
  }

  int32_t special_of_config(const char* key) const {
    const auto token = value(config_, key);
    const auto name = token.is_object() ? value(token, "content") : token;
    require(name.is_string(), "{}: {} is missing or not a string", config_where_, key);
    return id_of(name.get<std::string>(), config_where_);
  }

  void read_specials() {
    v_.bos = special_of_config("bos_token");
    v_.eos = special_of_config("eos_token");
    if (!value(config_, "eot_token").is_null()) v_.eot = special_of_config("eot_token");
    const auto unknown = value(model_, "unk_token");
    require(unknown.is_null() || unknown.is_string(), "{}: unk_token is not a string", where_);
    v_.unk = unknown.is_null() ? -1 : id_of(unknown.get<std::string>(), where_);
    if (v_.unk >= 0) v_.types[static_cast<size_t>(v_.unk)] = PieceType::Unknown;
    const auto n_bytes = std::count(v_.types.begin(), v_.types.end(), PieceType::Byte);
    supported(v_.unk < 0 || n_bytes == 256 || value(model_, "fuse_unk") == true,
              "fuse_unk = false without byte pieces");
  }

  void read_normalizer() {
    const auto normalizer = value(json_, "normalizer");
    v_.add_space_prefix = normalizer == nlohmann::json(normalizer_of(true));
    supported(v_.add_space_prefix || normalizer == nlohmann::json(normalizer_of(false)), "the normalizer {}",
              shown(normalizer));
    const auto decoder = value(json_, "decoder");
    supported(decoder == nlohmann::json(decoder_of(v_.add_space_prefix)), "the decoder {}", shown(decoder));
  }

  void read_post_processor() {
    const auto post = value(json_, "post_processor");
    for (const auto& [bos, eos] : {std::pair{false, false}, {true, false}, {false, true}, {true, true}}) {
      v_.add_bos = bos;
      v_.add_eos = eos;
      const auto ours = nlohmann::json(post_processor_of(v_));
      const auto same = [&](const char* key) { return value(ours, key) == value(post, key); };
      if (same("type") && same("single") && same("special_tokens")) return;  // how a pair begins is of no interest here
    }
    fail("{}: the post-processor {} is not supported here", where_, shown(post));
  }

  std::pair<std::string, std::string> merge_of(const nlohmann::json& entry) const {
    if (entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string()) {
      return {entry[0].get<std::string>(), entry[1].get<std::string>()};
    }
    require(entry.is_string(), "{}: the merge {} is not a pair of pieces", where_, shown(entry));
    const auto text = entry.get<std::string>();
    const size_t space = text.find(' ');
    require(space != std::string::npos, "{}: the merge \"{}\" has no space", where_, printable(text));
    return {text.substr(0, space), text.substr(space + 1)};
  }

  // The n-th piece that merges make has the score -n; those that none makes come after. So SentencePiece numbers them.
  void read_scores() {
    const PieceIndex index(v_);
    const auto merges = json_get<std::vector<nlohmann::json>>(model_, "merges", where_);
    std::vector<size_t> n_merges(v_.pieces.size());
    std::set<std::pair<int32_t, size_t>> seen;
    int32_t current = -1;
    float score = 0.0F;
    for (const nlohmann::json& entry : merges) {
      const auto& [left, right] = merge_of(entry);
      const int32_t id = index.find(left + right);
      const auto i = static_cast<size_t>(id);
      require(id >= 0 && index.find(left) >= 0 && index.find(right) >= 0 && seen.emplace(id, left.size()).second,
              "{}: the merge {} is not of pieces, or occurs twice", where_, shown(entry));
      if (!index.joins(id) || !index.joins(index.find(left)) || !index.joins(index.find(right))) continue;
      if (id != current) {
        supported(n_merges[i] == 0, "BPE whose merges for \"{}\" are not one after the other", printable(v_.pieces[i]));
        current = id;
        v_.scores[i] = score--;
      }
      ++n_merges[i];
    }
    for (size_t i = 0; i < v_.pieces.size(); ++i) {
      size_t n_splits = 0;
      index.for_each_split(static_cast<int32_t>(i), [&](std::string_view, std::string_view) { ++n_splits; });
      supported(n_splits == n_merges[i], "BPE that makes \"{}\" of {} pairs of pieces where it has {}",
                printable(v_.pieces[i]), n_merges[i], n_splits);
      if (n_splits == 0 && v_.types[i] == PieceType::Normal) v_.scores[i] = score--;
    }
  }

  const nlohmann::json& json_;
  const nlohmann::json& config_;
  std::string where_;
  std::string config_where_;
  nlohmann::json model_;
  std::vector<nlohmann::json> added_;
  SentencePieceVocabulary v_;
};

}  // namespace

void SentencePieceTokenizer::write_hf(const std::filesystem::path& directory) const {
  const SentencePieceVocabulary& v = vocabulary_;
  Json vocabulary = Json::object();
  auto& entries = vocabulary.get_ref<Json::object_t&>();  // appended to: looking each key up takes quadratic time
  for (size_t id = 0; id < v.pieces.size(); ++id) entries.emplace_back(v.pieces[id], id);
  const Json unknown = v.unk < 0 ? Json() : Json(v.pieces[static_cast<size_t>(v.unk)]);
  const Json tokenizer = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added_tokens_of(v)},
      {"normalizer", normalizer_of(v.add_space_prefix)},
      {"pre_tokenizer", nullptr},
      {"post_processor", post_processor_of(v)},
      {"decoder", decoder_of(v.add_space_prefix)},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", unknown},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", true},
        {"byte_fallback", std::find(v.types.begin(), v.types.end(), PieceType::Byte) != v.types.end()},
        {"ignore_merges", false},
        {"vocab", std::move(vocabulary)},
        {"merges", merges_of(v)}}},
  };
  // PreTrainedTokenizerFast, since Llama's own class would put another normalizer in place of the file's.
  Json config = {
      {"tokenizer_class", "PreTrainedTokenizerFast"},
      {"bos_token", v.pieces[static_cast<size_t>(v.bos)]},
      {"eos_token", v.pieces[static_cast<size_t>(v.eos)]},
      {"unk_token", unknown},
      {"add_bos_token", v.add_bos},
      {"add_eos_token", v.add_eos},
      {"clean_up_tokenization_spaces", false},
      {"model_max_length", std::numeric_limits<int32_t>::max()},
  };
  if (v.eot >= 0) config["eot_token"] = v.pieces[static_cast<size_t>(v.eot)];
  if (!chat_template().empty()) config["chat_template"] = chat_template();
  core::write_file_atomically(directory / "tokenizer.json", tokenizer.dump(1) + "\n");
  core::write_file_atomically(directory / "tokenizer_config.json", config.dump(2) + "\n");
}

SentencePieceTokenizer SentencePieceTokenizer::from_hf(const nlohmann::json& tokenizer, const std::string& where,
                                                       const nlohmann::json& config, const std::string& config_where) {
  return HfReader(tokenizer, config, where, config_where).read();
}

}  // namespace folio::data
