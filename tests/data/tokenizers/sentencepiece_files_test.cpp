// Tests SentencePiece vocabularies in GGUF files and Hugging Face directories: round trips, conversions, bad files.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/data/support.h"

namespace folio::data {
namespace {

using core::test::read_bytes;
using core::test::TempDir;
using core::test::write_bytes;
using test::add_piece;
using test::tokenizer_of;
using test::vocabulary_of;

const std::vector<std::string> kPieces = {"▁a", "ab", "aab", "▁▁", "aa", "▁", "a", "b", "é", "<", "s", ">"};

const SentencePieceVocabulary& read_vocabulary(const std::unique_ptr<Tokenizer>& tokenizer) {
  return dynamic_cast<const SentencePieceTokenizer&>(*tokenizer).vocabulary();
}

// ---- GGUF ----

std::unique_ptr<Tokenizer> read_with(const std::string& key, const core::GgufValue& value) {
  return test::read_changed_gguf(tokenizer_of(kPieces), key, value);
}

std::unique_ptr<Tokenizer> read_without(const std::string& key, SentencePieceVocabulary v = vocabulary_of(kPieces)) {
  return test::read_changed_gguf(SentencePieceTokenizer(std::move(v), "the test"), key, {});
}

TEST(SentencePieceGguf, RoundTripsThroughGgufMetadata) {
  SentencePieceVocabulary v = vocabulary_of(kPieces);
  add_piece(v, "<tool>", 0.5F, PieceType::UserDefined);
  add_piece(v, "[PAD]", -1000.0F, PieceType::Unused);
  EXPECT_EQ(read_vocabulary(test::read_gguf(SentencePieceTokenizer(v, "the test").to_gguf())), v);
  v.bos = 2;
  v.eos = 5;
  v.unk = -1;
  v.add_bos = false;
  v.add_eos = true;
  v.add_space_prefix = false;
  v.types[0] = PieceType::Control;
  EXPECT_EQ(read_vocabulary(test::read_gguf(SentencePieceTokenizer(v, "the test").to_gguf())), v);
}

TEST(SentencePieceGguf, MissingKeysUseLlamaCppsDefaults) {
  SentencePieceVocabulary v = vocabulary_of(kPieces);
  v.bos = 4;
  v.eos = 5;
  v.unk = 6;
  v.add_bos = v.add_space_prefix = false;
  v.add_eos = true;
  EXPECT_EQ(read_vocabulary(read_without("bos_token_id", v)).bos, 1);
  EXPECT_EQ(read_vocabulary(read_without("eos_token_id", v)).eos, 2);
  EXPECT_EQ(read_vocabulary(read_without("unknown_token_id", v)).unk, 0);
  EXPECT_TRUE(read_vocabulary(read_without("add_bos_token", v)).add_bos);
  EXPECT_FALSE(read_vocabulary(read_without("add_eos_token", v)).add_eos);
  EXPECT_TRUE(read_vocabulary(read_without("add_space_prefix", v)).add_space_prefix);
}

TEST(SentencePieceGguf, RejectsInconsistentMetadataByName) {
  using core::GgufArray;
  const size_t n = vocabulary_of(kPieces).pieces.size();
  EXPECT_ERROR(read_without("model"), "tokenizer.ggml.model");
  EXPECT_ERROR(read_without("tokens"), "tokenizer.ggml.tokens");
  EXPECT_ERROR(read_without("scores"), "tokenizer.ggml.scores");
  EXPECT_ERROR(read_without("token_type"), "tokenizer.ggml.token_type");
  EXPECT_ERROR(read_with("tokens", GgufArray{std::vector<int32_t>(n, 1)}), "not a list of strings");
  EXPECT_ERROR(read_with("scores", GgufArray{std::vector<double>(n, 0)}), "32-bit floating-point");
  EXPECT_ERROR(read_with("scores", GgufArray{std::vector<float>(n - 1, 0)}), "scores");
  EXPECT_ERROR(read_with("token_type", GgufArray{std::vector<int64_t>(n, 1)}), "32-bit integers");
  EXPECT_ERROR(read_with("token_type", GgufArray{std::vector<int32_t>(n, 9)}), "unknown type 9");
  EXPECT_ERROR(read_with("bos_token_id", static_cast<uint32_t>(n)), "the BOS token");
  EXPECT_ERROR(read_with("eos_token_id", uint32_t{0xFFFFFFFF}), "is not a valid ID");
  EXPECT_ERROR(read_with("eos_token_id", std::string("2")), "not an integer");
  EXPECT_ERROR(read_with("add_bos_token", uint8_t{1}), "not a boolean");
  EXPECT_ERROR(read_with("model", std::string("bert")), "\"bert\" is not supported");
}

// ---- Hugging Face ----

class SentencePieceHf : public testing::Test {
 protected:
  std::unique_ptr<Tokenizer> rewritten(const SentencePieceVocabulary& v) {
    SentencePieceTokenizer(v, "the test").write_hf(folder_.path());
    return tokenizer_from_hf(folder_.path());
  }

  // Writes a valid vocabulary, applies `change` to the JSON of the file `name`, and reads the directory.
  template <typename Change>
  std::unique_ptr<Tokenizer> read_changed(Change&& change, const std::string& name = "tokenizer.json") {
    tokenizer_of(kPieces).write_hf(folder_.path());
    auto json = nlohmann::ordered_json::parse(read_bytes(folder_ / name));
    change(json);
    write_bytes(folder_ / name, json.dump());
    return tokenizer_from_hf(folder_.path());
  }

  TempDir folder_;
};

TEST_F(SentencePieceHf, OrderedScoresRoundTrip) {
  SentencePieceVocabulary v = vocabulary_of(kPieces);
  // tokenizer.json stores the order of merges instead of scores, so only scores of 0, -1, -2, … survive a round trip.
  EXPECT_EQ(read_vocabulary(rewritten(v)), v);
  add_piece(v, "<tool>", 0, PieceType::UserDefined);
  add_piece(v, "<pad>", 0, PieceType::Control);
  EXPECT_EQ(read_vocabulary(rewritten(v)), v);
  v.add_bos = v.add_space_prefix = false;
  EXPECT_EQ(read_vocabulary(rewritten(v)), v);
  v.add_eos = true;
  v.bos = v.eos;
  EXPECT_EQ(read_vocabulary(rewritten(v)), v);
  v.add_bos = true;
  EXPECT_EQ(read_vocabulary(rewritten(v)), v);
}

TEST_F(SentencePieceHf, OtherScoresRoundTripToTheSameTokens) {
  std::mt19937 random(3);
  const std::vector<std::string> alphabet = {"a", "b", " ", "é", "中", "\n", "<s>"};
  for (int round = 0; round < 30; ++round) {
    SentencePieceVocabulary v = vocabulary_of(kPieces, round % 2 == 0);
    for (float& score : v.scores) score = static_cast<float>(random() % 1000) / 7.0F;
    const auto read = rewritten(v);
    const SentencePieceTokenizer before(v, "the test");
    EXPECT_EQ(read->vocab_size(), before.vocab_size());
    for (int i = 0; i < 50; ++i) {
      const std::string text = test::random_text(random, alphabet, 20);
      ASSERT_EQ(read->encode(text), before.encode(text)) << core::printable(text);
    }
  }
}

TEST_F(SentencePieceHf, RejectsUnsupportedTokenizersByName) {
  using Json = nlohmann::ordered_json;
  const auto refused = [&](auto&& change, const std::string& part) { EXPECT_ERROR(read_changed(change), part); };
  refused([](Json& j) { j["model"]["type"] = "Unigram"; }, "a model of type Unigram is not supported");
  refused([](Json& j) { j["pre_tokenizer"] = {{"type", "Metaspace"}}; }, "the pre-tokenizer {\"type\":\"Metaspace\"}");
  refused([](Json& j) { j["normalizer"] = {{"type", "NFKC"}}; }, "the normalizer {\"type\":\"NFKC\"} is not supported");
  refused([](Json& j) { j["normalizer"] = nullptr; }, "the normalizer null");
  refused([](Json& j) { j["decoder"] = {{"type", "ByteLevel"}}; }, "the decoder {\"type\":\"ByteLevel\"}");
  refused([](Json& j) { j["post_processor"] = {{"type", "ByteLevel"}}; }, "the post-processor");
  refused([](Json& j) { j["post_processor"]["single"] = Json::array(); }, "the post-processor");
  refused([](Json& j) { j["model"]["dropout"] = 0.1; }, "dropout = 0.1");
  refused([](Json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }, "end_of_word_suffix");
  refused([](Json& j) { j["model"]["ignore_merges"] = true; }, "ignore_merges");
  refused([](Json& j) { j["model"]["merges"].erase(0); }, "\"▁a\" from 0 of 1 pairs of pieces");
  refused([](Json& j) { std::swap(j["model"]["merges"][0], j["model"]["merges"][2]); }, "are not consecutive");
  refused([](Json& j) { j["added_tokens"][1]["lstrip"] = 1; }, "\"lstrip\"");
  const auto metaspace_refused = [&](const char* key, const Json& setting) {
    const auto change = [&](Json& j) {
      j["normalizer"] = nullptr;
      j["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}};
      j["pre_tokenizer"][key] = setting;
    };
    refused(change, "the pre-tokenizer {");
  };
  metaspace_refused("replacement", "_");
  metaspace_refused("prepend_scheme", "last");
  metaspace_refused("split", 1);
}

TEST_F(SentencePieceHf, ErrorsNameDamagedFiles) {
  using Json = nlohmann::ordered_json;
  const auto refused = [&](auto&& change, const std::string& part) { EXPECT_ERROR(read_changed(change), part); };
  const auto config_refused = [&](auto&& change, const std::string& part) {
    EXPECT_ERROR(read_changed(change, "tokenizer_config.json"), part);
  };
  refused([](Json& j) { j = Json::array(); }, "tokenizer.json: the key \"model\" is missing");
  refused([](Json& j) { j["model"] = 5; }, "\"type\" is missing");
  refused([](Json& j) { j["model"].erase("vocab"); }, "\"vocab\" is missing");
  refused([](Json& j) { j["model"]["vocab"] = "x"; }, "not an object");
  refused([](Json& j) { j["model"]["vocab"]["▁a"] = 260; }, "vocabulary's IDs are not 0 to 270");
  refused([](Json& j) { j["model"]["vocab"]["▁a"] = 1u << 31U; }, "has 2147483648");
  refused([](Json& j) { j["model"]["vocab"]["▁a"] = -1; }, "has -1");
  refused([](Json& j) { j["model"]["vocab"]["▁a"] = "1"; }, "vocabulary's IDs");
  refused([](Json& j) { j["model"]["merges"] = "x"; }, "\"merges\"");
  refused([](Json& j) { j["model"]["merges"][1] = 5; }, "the merge 5 is not a pair");
  refused([](Json& j) { j["model"]["merges"][1] = "ab"; }, "has no space");
  refused([](Json& j) { j["model"]["merges"][1] = "a zz"; }, "does not join two pieces into a third, or occurs twice");
  refused([](Json& j) { j["model"]["merges"][1] = j["model"]["merges"][0]; },
          "does not join two pieces into a third, or occurs twice");
  refused([](Json& j) { j["model"]["unk_token"] = "zz"; }, "\"zz\" is not in the vocabulary");
  refused([](Json& j) { j["model"]["unk_token"] = 3; }, "unk_token is not a string");
  refused([](Json& j) { j["added_tokens"] = 3; }, "added_tokens");
  refused([](Json& j) { j["added_tokens"][0] = 3; }, "\"content\" is missing");
  refused([](Json& j) { j["added_tokens"][0]["id"] = 7; }, "vocabulary's IDs");
  refused([](Json& j) { j["added_tokens"][0].erase("special"); }, "\"special\" is missing");
  refused([](Json& j) { j["added_tokens"].push_back({{"content", "new"}, {"id", 999}, {"special", true}}); }, "999");
  refused([](Json& j) { j["model"]["vocab"][""] = 271; }, "piece 271 has 0 bytes");
  refused([](Json& j) { j["model"]["vocab"][std::string(1025, 'a')] = 271; }, "piece 271 has 1025 bytes");
  refused(
      [](Json& j) {
        for (const int id : {271, 272}) j["added_tokens"].push_back({{"content", "x"}, {"id", id}, {"special", true}});
      },
      "piece 272 (\"x\") occurs twice");
  refused([](Json& j) { j["post_processor"]["special_tokens"]["<s>"]["ids"] = {2}; }, "the post-processor");
  config_refused([](Json& j) { j.erase("bos_token"); }, "tokenizer_config.json: bos_token is missing");
  config_refused([](Json& j) { j["eos_token"] = 5; }, "eos_token is missing or not a string");
  config_refused([](Json& j) { j["eos_token"] = "zz"; }, "tokenizer_config.json: token \"zz\"");
  std::filesystem::remove(folder_ / "tokenizer_config.json");
  EXPECT_ERROR(tokenizer_from_hf(folder_.path()), "tokenizer_config.json");
}

}  // namespace
}  // namespace folio::data
