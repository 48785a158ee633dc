#include "data/tokenizers/hf/hf_tokenizer.h"

#include <algorithm>
#include <array>
#include <limits>

#include "core/json.h"

namespace folio::data::hf {
namespace {

using core::fail;
using core::json_get;
using core::printable;
using core::require;

// The keys of added tokens' flags, in the order of tokenizer.json.
constexpr std::array<std::pair<const char*, bool TokenFlags::*>, 4> kFlags = {
    {{"single_word", &TokenFlags::single_word},
     {"lstrip", &TokenFlags::lstrip},
     {"rstrip", &TokenFlags::rstrip},
     {"normalized", &TokenFlags::normalized}}};

Json added_token(size_t id, const std::string& content, const TokenFlags& flags, bool special) {
  Json token = {{"id", id}, {"content", content}};
  for (const auto& [name, member] : kFlags) token[name] = flags.*member;
  token["special"] = special;
  return token;
}

// Returns the piece for an ID without a token, named as in llama.cpp.
std::string padding_piece(size_t id) { return fmt::format("[PAD{}]", id); }

// Stores a piece at its ID and returns the ID. Throws core::Error if the ID is out of range or has a different piece.
size_t place(std::vector<std::string>& pieces, const std::string& piece, const nlohmann::json& id,
             const std::string& where) {
  const bool fits = id.is_number_unsigned() && id.get<uint64_t>() < pieces.size();
  if (!fits || (!pieces[id.get<size_t>()].empty() && pieces[id.get<size_t>()] != piece)) {
    fail("{}: the vocabulary's IDs are not 0 to {}, each once: \"{}\" has {}", where, pieces.size() - 1,
         printable(piece), shown(id));
  }
  pieces[id.get<size_t>()] = piece;
  return id.get<size_t>();
}

// Returns a post-processor that adds BOS and EOS to text. `pieces` are spelled as in the file.
Json template_of(const Vocabulary& v, const std::vector<std::string>& pieces) {
  Json single = Json::array();
  Json pair = Json::array();
  Json special = Json::object();
  const auto add_special = [&](int32_t id, int type_id, Json& to) {
    const std::string& piece = pieces[static_cast<size_t>(id)];
    to.push_back({{"SpecialToken", {{"id", piece}, {"type_id", type_id}}}});
    special[piece] = {{"id", piece}, {"ids", {id}}, {"tokens", {piece}}};
  };
  const auto add_text = [&](const char* name, int type_id, Json& to) {
    if (!v.prefix.empty() ? type_id == 0 : v.add_bos) {
      for (const int32_t id : beginning_of(v)) add_special(id, type_id, to);
    }
    to.push_back({{"Sequence", {{"id", name}, {"type_id", type_id}}}});
    if (v.add_eos) add_special(v.eos, type_id, to);
  };
  add_text("A", 0, single);
  add_text("A", 0, pair);
  add_text("B", 1, pair);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

// Returns the special tokens that a post-processor inserts before the text.
std::vector<int32_t> prefix_in(const nlohmann::json& post_processor, const Vocabulary& v) {
  std::vector<int32_t> prefix;
  const nlohmann::json& single = value(post_processor, "single");
  for (size_t i = 0; single.is_array() && i + 1 < single.size() && i < 8; ++i) {
    const nlohmann::json& id = value(value(single[i], "SpecialToken"), "id");
    const auto found = id.is_string() ? std::ranges::find(v.pieces, id.get<std::string>()) : v.pieces.end();
    if (found == v.pieces.end()) return {};
    prefix.push_back(static_cast<int32_t>(found - v.pieces.begin()));
  }
  return prefix;
}

}  // namespace

const nlohmann::json& value(const nlohmann::json& object, const char* key) {
  static const nlohmann::json kNull;
  const auto found = object.find(key);  // find() returns end() if `object` is not an object
  return found == object.end() ? kNull : *found;
}

const nlohmann::json& read_model(const TokenizerFiles& source) {
  const nlohmann::json& model = core::json_at(source.tokenizer, "model", source.where);
  const auto type = json_get<std::string>(model, "type", source.where);
  supported(type == "BPE", source.where, "a model of type {}", printable(type));
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
    const nlohmann::json& setting = value(model, key);
    supported(setting.is_null() || setting == "" || setting == 0, source.where, "{} = {}", key, shown(setting));
  }
  return model;
}

std::vector<std::string> pieces_by_id(const nlohmann::json& vocabulary, size_t n, const std::string& where) {
  require(vocabulary.is_object(), "{}: the vocabulary is not an object", where);
  std::vector<std::string> pieces(n);
  for (const auto& [piece, id] : vocabulary.items()) place(pieces, piece, id, where);
  return pieces;
}

void read_pieces(const TokenizerFiles& source, Vocabulary& v) {
  const std::string& where = source.where;
  const nlohmann::json& vocabulary = core::json_at(core::json_at(source.tokenizer, "model", where), "vocab", where);
  const nlohmann::json none = nlohmann::json::array();
  const nlohmann::json& added =
      source.tokenizer.contains("added_tokens") ? core::json_list(source.tokenizer, "added_tokens", where) : none;
  size_t n = vocabulary.size();
  for (const auto& token : added) {  // tokens that are missing in "vocab" extend it
    if (!vocabulary.contains(json_get<std::string>(token, "content", where))) ++n;
  }
  n = std::max(n, source.vocab_size);
  v.pieces = pieces_by_id(vocabulary, n, where);
  v.types.assign(n, PieceType::Normal);
  for (const auto& token : added) {
    const auto content = token.at("content").get<std::string>();
    const bool special = json_get<bool>(token, "special", where);
    const size_t id = place(v.pieces, content, value(token, "id"), where);
    v.types[id] = special ? PieceType::Control : PieceType::UserDefined;
    TokenFlags flags;
    for (const auto& [key, member] : kFlags) {
      if (token.contains(key)) flags.*member = json_get<bool>(token, key, where);
    }
    if (flags != TokenFlags()) v.flags[static_cast<int32_t>(id)] = flags;
  }
  for (size_t id = 0; id < n; ++id) {  // fill IDs that have an embedding row but no token
    if (!v.pieces[id].empty() || value(vocabulary, "") == id) continue;
    v.pieces[id] = padding_piece(id);
    v.types[id] = PieceType::Unused;
  }
}

void drop_padding(Vocabulary& v) {
  const auto is_named = [&](size_t id) {
    return std::ranges::any_of(kSpecialIds, [&](const SpecialIdName& name) { return std::cmp_equal(v.*name.id, id); });
  };
  for (size_t id = v.pieces.size() - 1; id > 0 && v.types[id] == PieceType::Unused && !is_named(id); --id) {
    if (v.pieces[id] != padding_piece(id)) break;
    v.pieces.pop_back();
    v.types.pop_back();
  }
}

int32_t id_of(const std::string& piece, const Vocabulary& v, const std::string& where) {
  const auto found = std::find(v.pieces.begin(), v.pieces.end(), piece);
  require(found != v.pieces.end(), "{}: token \"{}\" is not in the vocabulary", where, printable(piece));
  return static_cast<int32_t>(found - v.pieces.begin());
}

void read_special_ids(const TokenizerFiles& source, Vocabulary& v) {
  for (const SpecialIdName& name : kSpecialIds) {
    const std::string key = fmt::format("{}_token", name.hf);
    const nlohmann::json& token = value(source.config, key.c_str());
    const nlohmann::json& text = token.is_object() ? value(token, "content") : token;
    const bool required = name.id == &Vocabulary::eos;
    require(text.is_string() || (token.is_null() && !required), "{}: {} is missing or not a string",
            source.config_where, key);
    v.*name.id = text.is_string() ? id_of(text.get<std::string>(), v, source.config_where) : -1;
  }
}

void read_template(const TokenizerFiles& source, const nlohmann::json& post_processor, Vocabulary& v) {
  v.add_bos = v.add_eos = false;
  if (post_processor.is_null()) return;
  for (const auto& [bos, eos] : {std::pair{false, false}, {true, false}, {false, true}, {true, true}}) {
    if ((bos && v.bos < 0) || (eos && v.eos < 0)) continue;
    v.add_bos = bos;
    v.add_eos = eos;
    const auto ours = nlohmann::json(template_of(v, v.pieces));
    const auto same = [&](const char* key) { return value(ours, key) == value(post_processor, key); };
    if (same("type") && same("single") && same("special_tokens")) return;  // "pair" is for pairs of texts
  }
  v.add_bos = v.add_eos = false;
  v.prefix = prefix_in(post_processor, v);
  const auto ours = nlohmann::json(template_of(v, v.pieces));
  for (const char* key : {"type", "single", "special_tokens"}) {
    supported(!v.prefix.empty() && value(ours, key) == value(post_processor, key), source.where,
              "the post-processor {}", shown(post_processor));
  }
}

std::pair<std::string, std::string> merge_of(const nlohmann::json& entry, const std::string& where) {
  if (entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string()) {
    return {entry[0].get<std::string>(), entry[1].get<std::string>()};
  }
  require(entry.is_string(), "{}: the merge {} is not a pair of pieces", where, shown(entry));
  const auto text = entry.get<std::string>();
  const size_t space = text.find(' ');
  require(space != std::string::npos, "{}: the merge \"{}\" has no space", where, [&] { return printable(text); });
  return {text.substr(0, space), text.substr(space + 1)};
}

HfFiles files_of(const Vocabulary& v, const ChatTemplates& chat_templates, TokenizerParts parts) {
  Json vocabulary = Json::object();
  auto& entries = vocabulary.get_ref<Json::object_t&>();  // appended directly, since operator[] searches linearly
  Json added = Json::array();
  for (size_t id = 0; id < v.pieces.size(); ++id) {
    entries.emplace_back(parts.pieces[id], id);
    if (is_special(v.types[id]) || v.types[id] == PieceType::UserDefined) {
      const TokenFlags flags = flags_of(v, static_cast<int32_t>(id));
      added.push_back(added_token(id, v.pieces[id], flags, is_special(v.types[id])));
    }
  }
  const Json tokenizer = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", std::move(added)},
      {"normalizer", std::move(parts.normalizer)},
      {"pre_tokenizer", std::move(parts.pre_tokenizer)},
      {"post_processor", v.add_bos || v.add_eos || !v.prefix.empty() ? template_of(v, parts.pieces) : Json()},
      {"decoder", std::move(parts.decoder)},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", std::move(parts.unk_token)},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", parts.fuse_unk},
        {"byte_fallback", parts.byte_fallback},
        {"ignore_merges", parts.ignore_merges},
        {"vocab", std::move(vocabulary)},
        {"merges", std::move(parts.merges)}}},
  };
  // Use PreTrainedTokenizerFast, because a model's own class would override parts of tokenizer.json. Write BOS and EOS,
  // because AutoTokenizer would otherwise use Llama's and prepend <s>.
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  for (const SpecialIdName& name : kSpecialIds) {
    const int32_t id = v.*name.id;
    if (id >= 0) config[fmt::format("{}_token", name.hf)] = parts.pieces[static_cast<size_t>(id)];
  }
  config["add_bos_token"] = v.add_bos;
  config["add_eos_token"] = v.add_eos;
  config["clean_up_tokenization_spaces"] = false;
  config["model_max_length"] = std::numeric_limits<int32_t>::max();
  config["model_input_names"] = Json::array({"input_ids", "attention_mask"});  // Llama has no token_type_ids
  config["padding_side"] = "left";                                             // generation needs padding on the left
  if (chat_templates.size() == 1 && chat_templates.contains(kDefaultTemplate)) {
    config["chat_template"] = chat_templates.begin()->second;
  } else {
    for (const auto& [name, text] : chat_templates) {
      config["chat_template"].push_back({{"name", name}, {"template", text}});
    }
  }
  return {.tokenizer = tokenizer.dump(1) + "\n", .config = config.dump(2) + "\n"};
}

}  // namespace folio::data::hf
