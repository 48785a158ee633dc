// Test tool that loads a tokenizer file of any supported format, encodes and decodes, and converts to other formats.
//   tokenizer_tool encode TOKENIZER TEXT_FILE           prints the ids as JSON
//   tokenizer_tool encode-each TOKENIZER JSON_FILE      prints the ids of each string of a list
//   tokenizer_tool prompts TOKENIZER JSON_FILE          the same for prompts: with BOS and parsed special tokens
//   tokenizer_tool pieces TOKENIZER JSON_FILE           encodes [[text, parse_special], …] as one text, prints the ids
//   tokenizer_tool decode TOKENIZER IDS_FILE            prints the text of a JSON list of ids
//   tokenizer_tool show TOKENIZER                       prints the tokenizer's properties as JSON
//   tokenizer_tool to-gguf|to-llama2c TOKENIZER FILE    writes FILE; to-llama2c also prints each id's embedding row
//   tokenizer_tool to-hf TOKENIZER DIRECTORY            writes a Hugging Face directory
//   tokenizer_tool characters TEXT_FILE DIRECTORY       writes a character tokenizer of the text
//   tokenizer_tool time TOKENIZER TEXT_FILE             prints the MB/s of encode
#include <fmt/format.h>

#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/file_io.h"
#include "core/json.h"
#include "data/tokenizers/char_tokenizer.h"
#include "data/tokenizers/llama2c/llama2c_vocabulary.h"
#include "data/tokenizers/tokenizer_files.h"

namespace folio::data {
namespace {

using Json = nlohmann::ordered_json;

Json show(const Tokenizer& tokenizer) {
  Json ends = Json::array();
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.ends_text(id)) ends.push_back(id);
  }
  Json special = Json::object();
  for (const SpecialToken& token : tokenizer.special_tokens().tokens()) special[token.text] = token.id;
  return {{"kind", tokenizer.kind()},
          {"vocab_size", tokenizer.vocab_size()},
          {"end_of_text", tokenizer.end_of_text()},
          {"prefix_tokens", tokenizer.prefix_tokens()},
          {"ends_text", ends},
          {"special_tokens", special},
          {"chat_template", tokenizer.chat_template()}};
}

// Encodes the [text, parse_special] pairs of a JSON file. For invalid UTF-8, which JSON can't contain, use "encode".
std::vector<int32_t> encode_pieces(const Tokenizer& tokenizer, const std::string& path) {
  const auto json = core::parse_json(core::read_text_file(path), path);
  const auto texts = json.get<std::vector<std::pair<std::string, bool>>>();
  std::vector<PromptPiece> pieces;
  for (const auto& [text, parse_special] : texts) pieces.push_back({.text = text, .parse_special = parse_special});
  return tokenizer.encode_pieces(pieces);
}

void time_encode(const Tokenizer& tokenizer, const std::string& text) {
  const std::clock_t start = std::clock();  // CPU time, since other processes may be running
  const size_t n = tokenizer.encode(text).size();
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  fmt::print("{} tokens, {:.3f} s, {:.1f} MB/s\n", n, seconds, static_cast<double>(text.size()) / 1e6 / seconds);
}

void run(const std::vector<std::string>& args) {
  const auto is = [&](std::string_view name, size_t n) { return args.size() == n + 1 && args[0] == name; };
  if (is("characters", 2)) {
    CharTokenizer::from_text(core::read_text_file(args[1]), args[1]).write_hf(args[2]);
    return;
  }
  core::require(args.size() >= 2, "usage: tokenizer_tool COMMAND TOKENIZER …; see tokenizer_tool.cpp");
  const auto tokenizer = load_tokenizer(args[1], 0);
  if (is("encode", 2)) {
    fmt::print("{}\n", Json(tokenizer->encode(core::read_text_file(args[2]))).dump());
  } else if (is("encode-each", 2) || is("prompts", 2)) {
    Json ids = Json::array();
    const auto json = core::parse_json(core::read_text_file(args[2]), args[2]);
    const auto ids_of = [&](const std::string& text) {
      return args[0] == "prompts" ? tokenizer->encode_prompt(text) : tokenizer->encode(text);
    };
    for (const auto& text : json.get<std::vector<std::string>>()) ids.push_back(ids_of(text));
    fmt::print("{}\n", ids.dump());
  } else if (is("pieces", 2)) {
    fmt::print("{}\n", Json(encode_pieces(*tokenizer, args[2])).dump());
  } else if (is("decode", 2)) {
    const auto ids = core::parse_json(core::read_text_file(args[2]), args[2]).get<std::vector<int32_t>>();
    const std::string text = tokenizer->decode(ids);
    std::fwrite(text.data(), 1, text.size(), stdout);
  } else if (is("show", 1)) {
    fmt::print("{}\n", show(*tokenizer).dump());
  } else if (is("time", 2)) {
    time_encode(*tokenizer, core::read_text_file(args[2]));
  } else if (is("to-gguf", 2)) {
    core::write_file_atomically(args[2],
                                [&](core::OutputFile& out) { core::write_gguf(out, tokenizer->to_gguf(), {}); });
  } else if (is("to-hf", 2)) {
    tokenizer->write_hf(args[2]);
  } else if (is("to-llama2c", 2)) {
    const Llama2cVocabulary vocabulary = to_llama2c(*tokenizer);
    write_llama2c_tokenizer(args[2], vocabulary);
    fmt::print("{}\n", Json(vocabulary.source_row).dump());
  } else {
    core::fail("usage: tokenizer_tool COMMAND TOKENIZER …; see tokenizer_tool.cpp");
  }
}

}  // namespace
}  // namespace folio::data

int main(int argc, char** argv) {
  try {
    folio::data::run({argv + 1, argv + argc});
  } catch (const folio::core::Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
